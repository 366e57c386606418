// SPDX-License-Identifier: Apache-2.0
//
// What changed from one trace to another, before and after a deployment say: is it a regression, how sure is that, and
// what is it made of: other requests, more of something, or the same taking longer. What `pitot diff` shows.
//
// Everything is a request's mean in whole ns, and adds up: the rows of a table to its change, a row's count effect and
// duration effect to the row's (Kitagawa's decomposition). Where the traces hold no requests that ended, steps of
// PyTorch's profiler take their place, and where one has none of these either, whole traces, which say nothing of
// times.
#ifndef PITOT_ANALYZE_DIFF_H_
#define PITOT_ANALYZE_DIFF_H_

#include <stdint.h>

#include <string>
#include <vector>

#include "pitot/export.h"
#include "pitot/model/trace.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// Thresholds. Where no other source is named they are those of analyzers.md, A32 and A33.
struct DiffOptions {
  double regression = 0.05;    // times are worse by more than this: a regression
  double count_growth = 0.01;  // the same of counts; Pitot's
  double q = 0.05;             // the share of false ones among the rows that are called significant
  double least_share = 0.02;   // an effect is at least this share of what its row was before,
  int64_t least_ns = 50'000;   // and so much of a request
  double most_mix_shift =
      0.05;  // more of the requests are of other routes or sizes: only the like are compared; Pitot's
};

enum class DiffPer : uint8_t { kRequest = 1, kStep = 2, kTrace = 3 };
PITOT_EXPORT const char* DiffPerName(DiffPer per) noexcept;  // "request"

enum class DiffOutcome : uint8_t { kPass = 0, kRegression = 1, kInconclusive = 2 };
PITOT_EXPORT const char* DiffOutcomeName(DiffOutcome outcome) noexcept;  // "no regression"

// One thing, of a request.
struct DiffRow {
  std::string name;
  std::string was;                           // its name before, where that was another
  double before_count = 0, after_count = 0;  // how many a request has
  int64_t before_ns = 0, after_ns = 0;
  int64_t count_effect_ns = 0;     // of the change: there are more of it
  int64_t duration_effect_ns = 0;  // it takes longer
  double p = 1;                    // that requests of one kind differ as much (Mann and Whitney)
  bool is_significant = false;     // p, among all rows of the table, and one of the effects at least as large as asked
  bool is_count = false, is_duration = false;  // which of them
};
struct DiffTable {
  std::string name;                     // "kernels"
  int64_t before_ns = 0, after_ns = 0;  // what the rows add up to
  bool is_judged = true;                // whether rows have a p: what the mix alone changes has none
  std::vector<DiffRow> rows;            // the largest changes first
};

// What decides. Of counts the bounds are the ratio itself where requests of neither side differ.
struct DiffGate {
  std::string name, unit;        // "latency"; "ns", "bytes", "1"
  double before = 0, after = 0;  // means, of p50 and p99 quantiles, of the requests that were compared
  bool is_known = false;         // whether the next three mean anything
  // after / before, and what holds it with 95 %; infinite where there was none. Of "latency" and "gpu time" the median
  // of all differences (Hodges and Lehmann) over the median before, which a few slow requests do not move as means do.
  double ratio = 1, low = 1, high = 1;
  double limit = 1;     // a regression, if `low` is beyond
  bool decides = true;  // whether not knowing makes the whole inconclusive
  DiffOutcome outcome = DiffOutcome::kInconclusive;
  std::string why;  // of kInconclusive
};

struct Diff {
  DiffOutcome outcome = DiffOutcome::kInconclusive;
  DiffPer per = DiffPer::kTrace;
  bool is_same_recording = false;  // of the same moments, as a dump and itself: kPass, and every gate's ratio is 1
  uint64_t before_requests = 0, after_requests = 0;  // or steps
  // What the mean latency changed by: within routes and sizes, and because there are other ones. Adds up.
  int64_t before_latency_ns = 0, after_latency_ns = 0;
  int64_t within_ns = 0, between_ns = 0;
  double mix_shift = 0;  // the share of requests that are of another route or size than before
  double sizes_p = 1;    // that requests of one population differ as much in size (Kolmogorov and Smirnov)
  uint64_t compared_before = 0, compared_after = 0;  // requests that gates compared: fewer where the mix shifted
  std::vector<DiffGate> gates;
  // "latency by route and size", "latency by blame", "latency by stage", "host", "gpu". Those that say nothing are not
  // there.
  std::vector<DiffTable> tables;
  std::vector<std::string> notes;  // what makes it less sure
};

// Fills `diff`. Threads: any. Errors: kInvalidArgument (an option, by name), kResourceExhausted.
// Cost: O(n log n) of both traces, and a walk (pitot/analyze/why.h) of each request, of at most 2,048 a side.
PITOT_EXPORT Status FindDiff(const model::Trace& before, const model::Trace& after, const DiffOptions& options,
                             Diff* diff) noexcept;

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_DIFF_H_
