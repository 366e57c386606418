// SPDX-License-Identifier: Apache-2.0
//
// A thread's calls in a stretch of time, and the GPU work they caused.
#ifndef PITOT_LIB_ANALYZE_FACTS_CALLS_WITHIN_H_
#define PITOT_LIB_ANALYZE_FACTS_CALLS_WITHIN_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "analyze/facts/host_work.h"
#include "pitot/model/indexes.h"

namespace pitot::facts {

class CallsWithin {
 public:
  // O(threads log n). Both must outlive this.
  CallsWithin(const model::Trace& trace, const model::LaunchIndex& launches)
      : trace_(trace), launches_(launches), first_(FirstCalls(trace)) {}
  struct Range {
    uint32_t first, last;
  };
  // The calls that began at `begin_ns` or later and before `end_ns`. O(log n).
  Range Of(uint32_t thread, int64_t begin_ns, int64_t end_ns) const {
    const auto begin = trace_.calls.begin_ns.begin();
    const auto first = std::lower_bound(begin + first_[thread], begin + first_[thread + 1], begin_ns);
    const auto last = std::lower_bound(first, begin + first_[thread + 1], end_ns);
    return {static_cast<uint32_t>(first - begin), static_cast<uint32_t>(last - begin)};
  }
  Range OfEvent(uint32_t event) const {
    return Of(trace_.events.thread[event], trace_.events.begin_ns[event], trace_.EventEnd(event));
  }
  // Visits the rows of `gpu` caused by an event's thread during the event.
  template <class See> void EachGpu(uint32_t event, const See& see) const {
    const Range calls = OfEvent(event);
    for (uint32_t call = calls.first; call < calls.last; ++call) {
      for (const uint32_t row : launches_.Gpu(call)) see(row);
    }
  }

 private:
  const model::Trace& trace_;
  const model::LaunchIndex& launches_;
  const std::vector<uint32_t> first_;
};

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_CALLS_WITHIN_H_
