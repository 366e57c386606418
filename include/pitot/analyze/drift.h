// SPDX-License-Identifier: Apache-2.0
//
// Finds a route that has become slower as a whole: a regime, not a spike. Verdicts cannot find it: they compare a
// request with those of the last minutes, which drift along. pitot/trigger/drift.h turns a drift into an incident.
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

// Thresholds are Pitot's own unless another source is named.
struct DriftOptions {
  int64_t period_ns = int64_t{300} * 1'000'000'000;  // one summary covers this much time
  uint32_t periods = 24;                             // summaries kept per route and size bucket: two hours
  uint32_t most_cells = 64;
  uint32_t requests_per_period = 128;  // the first ones; later ones of the period are ignored
  uint32_t least = 30;                 // a period with fewer has no summary
  double least_ratio = 1.15;           // of the medians now and before
  double least_z = 4;                  // their distance in standard errors, and in deviations among the earlier periods
};

// A route and size bucket that is slower than before.
struct Drift {
  std::string route;
  uint32_t size_bucket = 0;
  int64_t before_ns = 0, after_ns = 0;  // medians of the latency
  uint32_t before_requests = 0, after_requests = 0;
  int64_t since_ns = 0;  // begin of the first period that is as slow
  // Mean blame of requests between the quartiles. If most of these were recorded at one depth, and at the same one
  // before and after, only they count.
  BlameVector before, after;
  // They were not: GPU work then counts as Blame::kHostOncpuFramework, as in verdicts (Verdict::is_coarse).
  bool is_coarse = false;
};

// Summaries of request latency, by period.
// Memory: at most 30 KiB per route and size bucket, under 2 MiB in all.
// Threads: one at a time.
class PITOT_EXPORT Regimes {
 public:
  explicit Regimes(const DriftOptions& options = {}) : options_(options) {}

  // Adds a normal request, roughly in order of `at_ns`.
  // Errors: kResourceExhausted (nothing is added).
  Status Add(std::string_view route, uint32_t size_bucket, const BaselineRow& row) noexcept;
  // Returns all that are slower now than in earlier periods, largest difference first. Throws std::bad_alloc.
  std::vector<Drift> Find() const;
  size_t memory_bytes() const;

 private:
  struct Row {
    int64_t latency_ns;
    int32_t parts_us[kBlames];
    Depth depth;  // of GPU recording; kAuto: it changed meanwhile
    bool has_batches;
  };
  struct Summary {
    int64_t begin_ns = 0;
    uint32_t requests = 0;
    int64_t median_ns = 0;
    int64_t deviation_ns = 0;  // 1.4826 MAD
    BlameVector mean;
    Depth depth = Depth::kAuto;  // of all requests in `mean`; kAuto: of different ones
    bool has_batches = true;     // whether all of them had one
  };
  struct Cell {
    std::string route;
    uint32_t size_bucket = 0;
    int64_t period_begin_ns = 0;
    std::vector<Row> rows;           // of the current period
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
