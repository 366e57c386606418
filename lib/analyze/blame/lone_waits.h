// SPDX-License-Identifier: Apache-2.0
//
// Waits for a GPU by threads that served no request and no batch then: the only trace of work that nobody recorded, on
// another stream (docs/reference/walk.md#work-beside).
#ifndef PITOT_LIB_ANALYZE_BLAME_LONE_WAITS_H_
#define PITOT_LIB_ANALYZE_BLAME_LONE_WAITS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "analyze/blame/namespace.h"
#include "analyze/blame/walk_gpu.h"
#include "pitot/analyze/why.h"
#include "pitot/model/intervals.h"
#include "pitot/model/trace.h"

namespace pitot::blame {

class LoneWaits {
 public:
  // O(n log n) in such waits. Waits for a whole device are left out: they wait for everybody's work. So are a thread's
  // usual waits: those at most kUnusual times as long as the median, where there are at least `options.least_samples`.
  // With several devices only waits with a known stream count; without spans nobody asks. The trace must outlive this.
  LoneWaits(const model::Trace& trace, const GpuOps& gpu, const BlameOptions& options);

  // How long others waited so within `when`, and the call that waited longest then; `is_other(call)` tells others.
  // O(log n), and the waits since the first that had not ended before: each of these asks `is_other`.
  struct Overlap {
    int64_t ns = 0;
    uint32_t call = model::kNone;
  };
  template <class IsOther> Overlap Within(model::Interval when, const IsOther& is_other) const {
    Overlap overlap;
    model::Intervals others;
    int64_t longest_ns = 0;
    const auto first = std::partition_point(ended_ns_.begin(), ended_ns_.end(),
                                            [&](int64_t end_ns) { return end_ns <= when.begin_ns; });
    for (auto wait = waits_.begin() + (first - ended_ns_.begin()); wait != waits_.end(); ++wait) {
      const uint32_t call = *wait;
      if (trace_.calls.begin_ns[call] >= when.end_ns) break;
      const model::Interval time = {std::max(trace_.calls.begin_ns[call], when.begin_ns),
                                    std::min(trace_.CallEnd(call), when.end_ns)};
      if (!is_other(call) || time.end_ns <= time.begin_ns) continue;
      others.push_back(time);
      if (time.end_ns - time.begin_ns <= longest_ns) continue;
      longest_ns = time.end_ns - time.begin_ns;
      overlap.call = call;
    }
    overlap.ns = model::TotalNs(model::Union(std::move(others)));
    return overlap;
  }

 private:
  static constexpr int64_t kUnusual = 2;

  const model::Trace& trace_;
  std::vector<uint32_t> waits_;    // calls, by begin
  std::vector<int64_t> ended_ns_;  // by when each and all before it had ended
};

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_LONE_WAITS_H_
