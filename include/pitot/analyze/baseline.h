// SPDX-License-Identifier: Apache-2.0
//
// Remembers normal requests in bounded memory. For each route and size it keeps the whole blame vectors of the newest
// requests, so that typical parts add up just as those of the examined request do. It also keeps how long scopes of a
// route take. pitot/analyze/verdict.h does the comparison.
//
// Feed it a uniform sample of requests that ended well. Requests picked by a trigger for being slow would teach it that
// slow is normal. Leave out requests that ran while the server warmed up.
#ifndef PITOT_ANALYZE_BASELINE_H_
#define PITOT_ANALYZE_BASELINE_H_

#include <stddef.h>
#include <stdint.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pitot/analyze/scopes.h"
#include "pitot/analyze/why.h"
#include "pitot/depth.h"
#include "pitot/export.h"
#include "pitot/model/trace.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

struct BaselineOptions {
  // Requests kept per cell (a route and size bucket), the newest. 512 rows of 168 bytes take 84 KiB.
  uint32_t requests_per_cell = 512;
  // Number of cells. Requests that would need another one are counted in `refused`. 64 cells take 5.3 MiB.
  uint32_t most_cells = 64;
  // Epochs are counted from 0 of the clock. A request is compared with those of the current epoch and the one before. A
  // deployment or a drift is therefore forgotten after at most twice this time.
  int64_t epoch_ns = int64_t{600} * 1'000'000'000;
};

// The amount of work in a request, as opposed to its time.
struct WorkDone {
  double size = 0;        // the first of its sizes; 0: it has none
  uint32_t launches = 0;  // operations on GPUs
  uint32_t steps = 0;     // batches it was in
  uint32_t tokens = 0;    // output tokens
  // The lowest depth of GPU recording over the request's whole time. A request recorded deeper only after it was
  // already late has the lower depth.
  Depth depth = Depth::kScopes;
  // Waits for a GPU, by itself and by its batches: synchronisations, and copies that wait. Without a value: waits were
  // not recorded.
  std::optional<uint32_t> waits = std::nullopt;
};

// A request as the baseline keeps it.
struct BaselineRow {
  int64_t at_ns = 0;  // when it ended
  BlameVector blame;
  WorkDone work;
};

// Threads: one at a time. Only std::bad_alloc is thrown, and only by functions that say so.
class PITOT_EXPORT Baseline {
 public:
  // The requests that served for the comparison.
  enum class Level : uint8_t { kNone = 0, kCell = 1, kRoute = 2, kProcess = 3 };

  explicit Baseline(const BaselineOptions& options = {}) : options_(options) {}
  // Keeps so many cells and kinds of AddStay at most from now on, and forgets the last ones beyond. Never more than
  // before. A fourth of the kinds may be scopes, a sixth tokens, an eighth GPU work.
  void Limit(uint32_t most_cells, uint32_t most_kinds) noexcept;

  // Adds a request. If its largest part is over 2.1 s, all parts are rounded down to a multiple of a power of two ns.
  // Errors: kResourceExhausted (nothing is added).
  // Cost: O(cells); a cell grows to 84 KiB.
  Status Add(std::string_view route, uint32_t size_bucket, const BaselineRow& row) noexcept;

  // Fills `rows` with the requests to compare with at `now_ns`. They are those of the cell if at least `least` of these
  // are fresh, otherwise those of the route, otherwise all. If even these are too few, returns kNone and no rows.
  // Within a cell the oldest come first. Throws std::bad_alloc.
  Level Find(std::string_view route, uint32_t size_bucket, int64_t now_ns, uint32_t least,
             std::vector<BaselineRow>* rows) const;

  static constexpr uint32_t kMostKinds = 192;
  // The same for what others wait for, and for tokens: batches, holds of locks, scopes, stays in queues, GPU work, the
  // time before tokens. The newest 64 of each are kept, of at most 192 kinds, of which 48 may be scopes, 32 tokens and
  // 24 GPU work (under 2.1 MiB). `much` is less than 2^22; more counts as that. LearnStays (pitot/analyze/learn.h) adds
  // to it.
  struct StayKey {
    model::NormKind kind = model::NormKind::kBatch;
    Depth depth = Depth::kScopes;
    uint32_t much = 0;  // NormRow::much
  };
  Status AddStay(std::string_view name, const StayKey& key, const BaselineRow& row) noexcept;
  // Adds to the trace what is known at `now_ns`, in place of what it has: medians of each kind, if it holds at least
  // eight things that are fresh, and each token. Requests are among them. O(n), about 10 ms for a full baseline.
  // Errors: kResourceExhausted (the trace then has none).
  Status AddNorms(int64_t now_ns, model::Trace* trace) const noexcept;

  // How long scopes of such requests take. LearnRequest (pitot/analyze/learn.h) adds to it; Add does not.
  ScopeTimes& scopes() { return scopes_; }
  const ScopeTimes& scopes() const { return scopes_; }

  static constexpr std::string_view kHead = "PITB";  // the first bytes of every Save
  // Convert the whole baseline to bytes and back, so that it survives a restart. Times of another boot mean nothing:
  // loaded requests count as those of the epoch before `now_ns`, and are forgotten as new ones replace them. Load
  // replaces the current content.
  // Errors: kResourceExhausted; Load: kDataLoss (incomplete, or not written by Save).
  Status Save(std::string* bytes) const noexcept;
  Status Load(std::string_view bytes, int64_t now_ns) noexcept;

  uint64_t size() const;  // requests kept
  // Changes with every request and stay that is added, and with the epoch of `now_ns`. While it stays the same, so does
  // what AddNorms adds.
  uint64_t Revision(int64_t now_ns) const { return added_ + static_cast<uint64_t>(Epoch(now_ns)); }
  uint64_t refused() const { return refused_; }
  size_t memory_bytes() const;

 private:
  // 32-bit parts with a common shift take half the memory of a BaselineRow.
  struct Packed {
    int64_t at_ns = 0;
    int32_t parts[kBlames] = {};
    WorkDone work;
    uint8_t shift = 0;
  };
  struct Cell {
    std::string route;
    uint32_t size_bucket = 0;
    uint32_t next = 0;  // the oldest row, once the ring is full
    std::vector<Packed> ring;
  };
  struct Loader;
  static void SaveCells(const std::vector<Cell>& cells, std::string* out);
  static Packed Pack(const BaselineRow& row);
  static BaselineRow Unpack(const Packed& packed);
  int64_t Epoch(int64_t at_ns) const { return at_ns / (options_.epoch_ns > 1 ? options_.epoch_ns : 1); }
  bool IsFresh(const Packed& row, int64_t now_ns) const;
  // Null: it would need another cell, there are enough, and none that `may_go` is stale.
  template <class MayGo> Cell* FindCell(std::string_view route, uint32_t size_bucket, int64_t now_ns, uint32_t most,
                                        const MayGo& may_go, std::vector<Cell>* cells) const;
  void Keep(const BaselineRow& row, uint32_t most, Cell* cell);
  // Cells of stays have the key in place of the size bucket.
  static uint32_t Number(const StayKey& key);
  static StayKey KeyOf(uint32_t number);
  // One of so many parts of all kinds is for things of its sort; and whether a cell is of that sort.
  static uint32_t PartOf(model::NormKind kind);
  static bool IsLike(const Cell& cell, model::NormKind kind);
  void AddNorm(std::string_view name, const StayKey& key, const Cell& cell, int64_t now_ns, model::Trace* trace) const;
  void AddTokens(const Cell& cell, int64_t now_ns, model::Trace* trace) const;

  BaselineOptions options_;
  uint32_t most_kinds_ = kMostKinds;
  std::vector<Cell> cells_, stays_;
  uint64_t refused_ = 0, added_ = 0;
  ScopeTimes scopes_;
};
PITOT_EXPORT const char* LevelName(Baseline::Level level) noexcept;  // "same route and size"

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_BASELINE_H_
