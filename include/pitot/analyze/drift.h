// SPDX-License-Identifier: Apache-2.0
//
// A route that has become slower altogether, not one request of it: a regime, not a spike. Verdicts cannot say so, for
// they compare a request with those of the last minutes, which drift with it. pitot/trigger/drift.h makes an incident
// of one.
#ifndef PITOT_ANALYZE_DRIFT_H_
#define PITOT_ANALYZE_DRIFT_H_

#include <stddef.h>
#include <stdint.h>

#include <string>
#include <string_view>
#include <vector>

#include "pitot/analyze/baseline.h"
#include "pitot/export.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// Where no other source is named, thresholds are Pitot's own.
struct DriftOptions {
  int64_t period_ns = int64_t{300} * 1'000'000'000;  // requests of so long become one summary
  uint32_t periods = 24;                             // summaries kept of a route and size bucket: two hours
  uint32_t most_cells = 64;
  uint32_t requests_per_period = 128;  // the first so many
  uint32_t least = 30;                 // fewer say nothing
  double least_ratio = 1.15;           // of the medians of now and before
  double least_z = 4;                  // their distance in standard errors, and in deviations of the periods before
};

// One route and size bucket that is slower than it was.
struct Drift {
  std::string route;
  uint32_t size_bucket = 0;
  int64_t before_ns = 0, after_ns = 0;  // medians of the latency
  uint32_t before_requests = 0, after_requests = 0;
  int64_t since_ns = 0;  // the first period that is as slow began then
  // Means of those between the quartiles: of those recorded at one depth, if most were, and at the same before as
  // after.
  BlameVector before, after;
  // They were not: what GPUs did counts as Blame::kHostOncpuFramework, as in verdicts (Verdict::is_coarse).
  bool is_coarse = false;
};

// Summaries of what requests took, by period. Memory: at most 30 KiB a route and size bucket, under 2 MiB. Threads: one
// at a time.
class PITOT_EXPORT Regimes {
 public:
  explicit Regimes(const DriftOptions& options = {}) : options_(options) {}

  // Adds a normal request, in order of `at_ns` but for some. Errors: kResourceExhausted (nothing is added).
  Status Add(std::string_view route, uint32_t size_bucket, const BaselineRow& row) noexcept;
  // All that are slower now than the periods before usually were, the largest difference first. Throws std::bad_alloc.
  std::vector<Drift> Find() const;
  size_t memory_bytes() const;

 private:
  struct Row {
    int64_t latency_ns;
    int32_t parts_us[kBlames];
    Depth depth;  // of GPUs; kAuto: not all the time the same
    bool has_batches;
  };
  struct Summary {
    int64_t begin_ns = 0;
    uint32_t requests = 0;
    int64_t median_ns = 0;
    int64_t deviation_ns = 0;  // 1.4826 MAD
    BlameVector mean;
    Depth depth = Depth::kAuto;  // of all that is in `mean`; kAuto: of different ones
    bool has_batches = true;     // all of them
  };
  struct Cell {
    std::string route;
    uint32_t size_bucket = 0;
    int64_t period_begin_ns = 0;
    std::vector<Row> rows;           // of the period that is not over
    std::vector<Summary> summaries;  // oldest first
  };
  static Summary Summarize(const Cell& cell);
  bool FindIn(const Cell& cell, Drift* drift) const;

  DriftOptions options_;
  std::vector<Cell> cells_;
};

// "drift       /classify (size bucket 18): typical 19.8 -> 23.1 ms ...", in lines of at most 100 columns. Throws
// std::bad_alloc.
PITOT_EXPORT std::string DriftText(const Drift& drift, int64_t now_ns);

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_DRIFT_H_
