// SPDX-License-Identifier: Apache-2.0
#include "analyze/verdict/counterfactual.h"

#include <algorithm>

namespace pitot::verdict {

Counterfactual::Counterfactual(const RequestBlame& blame) : blame_(blame) {
  const std::vector<BlameSegment>& segments = blame.segments;
  // The walk goes backwards, so detours come by their begin, the last one first.
  for (auto detour = blame.detours.rbegin(); detour != blame.detours.rend(); ++detour) {
    const auto from = std::partition_point(segments.begin(), segments.end(), [&](const BlameSegment& segment) {
      return segment.begin_ns < detour->begin_ns;
    });
    const auto to = std::partition_point(from, segments.end(),
                                         [&](const BlameSegment& segment) { return segment.end_ns <= detour->end_ns; });
    if (from == to) continue;
    const int64_t length_ns = (to - 1)->end_ns - from->begin_ns - detour->slack_ns;
    ways_.push_back(
        {static_cast<size_t>(from - segments.begin()), static_cast<size_t>(to - segments.begin()), length_ns});
  }
}

}  // namespace pitot::verdict
