// SPDX-License-Identifier: Apache-2.0
//
// What a request would have taken if parts of it had taken no time (docs/reference/why.md#what-it-would-save).
#ifndef PITOT_LIB_ANALYZE_VERDICT_COUNTERFACTUAL_H_
#define PITOT_LIB_ANALYZE_VERDICT_COUNTERFACTUAL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyze/verdict/namespace.h"
#include "pitot/analyze/why.h"

namespace pitot::verdict {

// A request as a graph. Its nodes are the moments between its segments. Its edges are the segments; next to those of
// each detour also the way of the thread that the walk left there, as long as that thread did not wait. Played
// forwards, a moment is the latest that its edges allow. With all segments as they were, the moments are those of the
// trace. The blame must outlive this. Throws std::bad_alloc.
class Counterfactual {
 public:
  explicit Counterfactual(const RequestBlame& blame);

  // The latency if the segments with is_gone(segment) had taken no time. Cost: O(segments + detours), one allocation.
  template <class IsGone> int64_t LatencyWithout(const IsGone& is_gone) const {
    std::vector<int64_t> earliest_ns(blame_.segments.size() + 1);  // moment 0 is the arrival
    auto way = ways_.begin();
    for (size_t at = 0; at < blame_.segments.size(); ++at) {
      for (; way != ways_.end() && way->from == at; ++way)
        earliest_ns[way->to] = std::max(earliest_ns[way->to], earliest_ns[at] + way->length_ns);
      const BlameSegment& segment = blame_.segments[at];
      const int64_t length_ns = is_gone(segment) ? 0 : segment.end_ns - segment.begin_ns;
      earliest_ns[at + 1] = std::max(earliest_ns[at + 1], earliest_ns[at] + length_ns);
    }
    return earliest_ns.back();
  }

 private:
  struct Way {  // next to the segments
    size_t from, to;
    int64_t length_ns;
  };

  const RequestBlame& blame_;
  std::vector<Way> ways_;  // in the order of `from`
};

}  // namespace pitot::verdict

#endif  // PITOT_LIB_ANALYZE_VERDICT_COUNTERFACTUAL_H_
