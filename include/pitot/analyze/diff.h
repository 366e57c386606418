// SPDX-License-Identifier: Apache-2.0
//
// Compares two traces, for example from before and after a deployment. Is it a regression, and how certain is that? Is
// the cause a different mix of requests, more of some work, or the same work taking longer? `pitot diff` prints this.
//
// All numbers are means per request in whole ns, and they add up. The rows of a table add up to its change; the count
// effect and duration effect of a row add up to the row's change (Kitagawa's decomposition). If a trace holds no
// completed requests, steps of PyTorch's profiler take their place. If one of the traces has none of these either,
// whole traces are compared, and times are not.
#ifndef PITOT_ANALYZE_DIFF_H_
#define PITOT_ANALYZE_DIFF_H_

#include <stdint.h>

#include <optional>
#include <string>
#include <vector>

#include "pitot/export.h"
#include "pitot/model/trace.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// Thresholds. Those without another source are explained in docs/reference/diff.md#gates.
struct DiffOptions {
  double regression = 0.05;  // a time worse by more than this is a regression
  // A count higher by more than this is one. Without it 0.01, and where the latency fell `regression`, if that is
  // more; Pitot's.
  std::optional<double> count_growth;
  double q = 0.05;            // accepted share of false positives among the significant rows
  double least_share = 0.02;  // an effect is at least this share of its row's value before,
  int64_t least_ns = 50'000;  // and at least this much per request
  double most_mix_shift =
      0.05;  // if more requests than this changed route or size, only like ones are compared; Pitot's
};

enum class DiffPer : uint8_t { kRequest = 1, kStep = 2, kTrace = 3 };
PITOT_EXPORT const char* DiffPerName(DiffPer per) noexcept;  // "request"

enum class DiffOutcome : uint8_t { kPass = 0, kRegression = 1, kInconclusive = 2 };
PITOT_EXPORT const char* DiffOutcomeName(DiffOutcome outcome) noexcept;  // "no regression"

// One row: a thing requests spend time on, per request.
struct DiffRow {
  std::string name;
  std::string was;  // its name in the first trace, if different; "line 12" of a Python function now in another line
  double before_count = 0, after_count = 0;  // per request
  int64_t before_ns = 0, after_ns = 0;
  int64_t count_effect_ns = 0;     // the part of the change due to its number
  int64_t duration_effect_ns = 0;  // the part due to its length
  double p = 1;                    // probability of such a difference among requests of one kind (Mann and Whitney)
  bool is_significant = false;     // by p among all rows of the table, with at least one effect as large as required
  bool is_count = false, is_duration = false;  // which of them
};
struct DiffTable {
  std::string name;                     // "kernels"
  int64_t before_ns = 0, after_ns = 0;  // the rows add up to these
  bool is_judged = true;                // whether rows have a p; changes of the mix alone have none
  std::vector<DiffRow> rows;            // largest change first
};

// A criterion of the outcome. For counts, the bounds equal the ratio if requests do not differ within either side.
struct DiffGate {
  std::string name, unit;        // "latency"; "ns", "bytes", "1"
  double before = 0, after = 0;  // means, or quantiles for p50 and p99, of the compared requests
  bool is_known = false;         // whether the next three are valid
  // after / before, and its 95 % confidence bounds; infinite if there was nothing before. For "latency" and "gpu time"
  // it is the median of all differences (Hodges and Lehmann), relative to the median before. A few slow requests move
  // that less than a mean.
  double ratio = 1, low = 1, high = 1;
  double limit = 1;     // a regression if `low` exceeds it
  bool decides = true;  // whether the diff is inconclusive if this gate is
  DiffOutcome outcome = DiffOutcome::kInconclusive;
  std::string why;  // reason for kInconclusive
};

struct Diff {
  DiffOutcome outcome = DiffOutcome::kInconclusive;
  DiffPer per = DiffPer::kTrace;
  bool is_same_recording = false;  // both cover the same moments, as a dump and itself do: kPass, and every ratio is 1
  uint64_t before_requests = 0, after_requests = 0;  // or steps
  // The change of the mean latency: within routes and sizes, and due to their mix. Adds up.
  int64_t before_latency_ns = 0, after_latency_ns = 0;
  int64_t within_ns = 0, between_ns = 0;
  double mix_shift = 0;  // the share of requests with another route or size than before
  double sizes_p = 1;    // probability of such a difference in size within one population (Kolmogorov and Smirnov)
  uint64_t compared_before = 0, compared_after = 0;  // requests the gates compared: fewer if the mix shifted
  std::vector<DiffGate> gates;
  // "latency by route and size", "latency by blame", "latency by stage", "host", "gpu". Empty ones are left out.
  std::vector<DiffTable> tables;
  std::vector<std::string> notes;  // reasons to trust the result less
};

// Fills `diff`.
// Threads: any.
// Errors: kInvalidArgument (names the option), kResourceExhausted.
// Cost: O(n log n) of both traces, and a walk (pitot/analyze/why.h) of at most 2,048 requests from each.
PITOT_EXPORT Status FindDiff(const model::Trace& before, const model::Trace& after, const DiffOptions& options,
                             Diff* diff) noexcept;

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_DIFF_H_
