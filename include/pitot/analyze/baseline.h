// SPDX-License-Identifier: Apache-2.0
//
// What normal requests look like, in bounded memory: of each route and size the blame of the newest of them, whole
// vectors, so that what is usual adds up as what is asked about does, and how long scopes of a route take.
// pitot/analyze/verdict.h compares.
//
// Feed it with a uniform sample of requests that ended well: what triggers picked because it was slow would teach it
// that slow is normal. Keep what ran while the server warmed up out of it.
#ifndef PITOT_ANALYZE_BASELINE_H_
#define PITOT_ANALYZE_BASELINE_H_

#include <stddef.h>
#include <stdint.h>

#include <string>
#include <string_view>
#include <vector>

#include "pitot/analyze/scopes.h"
#include "pitot/analyze/why.h"
#include "pitot/depth.h"
#include "pitot/export.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

struct BaselineOptions {
  // Requests kept of each cell (a route and size bucket), the newest. 512 of 168 bytes are 84 KiB.
  uint32_t requests_per_cell = 512;
  // Cells; requests of more are counted in `refused`. 64 cells are 5.3 MiB.
  uint32_t most_cells = 64;
  // Requests older than this and the whole epoch before are no longer compared with: a deployment or a drift is
  // forgotten after at most twice this.
  int64_t epoch_ns = int64_t{600} * 1'000'000'000;
};

// How much work a request was, beside its time.
struct WorkDone {
  double size = 0;        // the first of its sizes; 0: none
  uint32_t launches = 0;  // operations of GPUs
  uint32_t steps = 0;     // batches that it was in
  uint32_t tokens = 0;    // that it put out
  // How much of GPUs was recorded all the time that it took: one that was recorded deeper only once it was late was
  // not.
  Depth depth = Depth::kScopes;
};

// A request as the baseline keeps it.
struct BaselineRow {
  int64_t at_ns = 0;  // when it ended
  BlameVector blame;
  WorkDone work;
};

// Threads: one at a time. Nothing throws but for memory, in the functions that say so.
class PITOT_EXPORT Baseline {
 public:
  // Whom a request is compared with.
  enum class Level : uint8_t { kNone = 0, kCell = 1, kRoute = 2, kProcess = 3 };

  explicit Baseline(const BaselineOptions& options = {}) : options_(options) {}

  // Adds a request. Values of more than 2.1 s are kept in units of a power of two ns, each rounded down.
  // Errors: kResourceExhausted (nothing is added). Cost: O(cells), and once a cell 84 KiB.
  Status Add(std::string_view route, uint32_t size_bucket, const BaselineRow& row) noexcept;

  // What is there to compare with at `now_ns`: of the cell if at least `least` of it are fresh, else of the route, else
  // of all; kNone and none if that is too few, too. Oldest first within a cell. Throws std::bad_alloc.
  Level Find(std::string_view route, uint32_t size_bucket, int64_t now_ns, uint32_t least,
             std::vector<BaselineRow>* rows) const;

  // How long scopes of such requests take. LearnRequest (pitot/analyze/learn.h) adds to it, Add does not.
  ScopeTimes& scopes() { return scopes_; }
  const ScopeTimes& scopes() const { return scopes_; }

  static constexpr std::string_view kHead = "PITB";  // that all bytes of Save begin with
  // All of it as bytes, and back: a baseline that survives a restart. What is loaded counts as of the epoch that is
  // over at `now_ns`, for times of another boot mean nothing: it is forgotten as new requests take its place. Load
  // replaces what was there. Errors: kResourceExhausted; of Load kDataLoss (not whole, or not written by Save).
  Status Save(std::string* bytes) const noexcept;
  Status Load(std::string_view bytes, int64_t now_ns) noexcept;

  uint64_t size() const;  // requests
  uint64_t refused() const { return refused_; }
  size_t memory_bytes() const;

 private:
  // 32-bit parts with a common shift: half the memory of BaselineRow.
  struct Packed {
    int64_t at_ns = 0;
    int32_t parts[kBlames] = {};
    WorkDone work;
    uint8_t shift = 0;
  };
  struct Cell {
    std::string route;
    uint32_t size_bucket = 0;
    uint32_t next = 0;  // once it is full, the oldest
    std::vector<Packed> ring;
  };
  static Packed Pack(const BaselineRow& row);
  static BaselineRow Unpack(const Packed& packed);
  bool IsFresh(const Packed& row, int64_t now_ns) const;
  Cell* FindCell(std::string_view route, uint32_t size_bucket, int64_t now_ns);

  BaselineOptions options_;
  std::vector<Cell> cells_;
  uint64_t refused_ = 0;
  ScopeTimes scopes_;
};
PITOT_EXPORT const char* LevelName(Baseline::Level level) noexcept;  // "same route and size"

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_BASELINE_H_
