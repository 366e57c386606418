// SPDX-License-Identifier: Apache-2.0
#include "analyze/verdict_saving.h"

#include <algorithm>
#include <cmath>

PITOT_NAMESPACE_BEGIN
namespace analyze {

int64_t Saving(const RequestBlame& blame, const std::vector<Cause>& causes, int64_t excess_ns) {
  std::vector<int64_t> saved(blame.segments.size());
  for (const Cause& cause : causes) {
    int64_t left_ns = cause.excess_ns;
    for (size_t i = 0; i < saved.size(); ++i) {
      const BlameSegment& segment = blame.segments[i];
      if (segment.blame != cause.blame || cause.blame_ns == 0) continue;
      const double share = static_cast<double>(cause.excess_ns) / static_cast<double>(cause.blame_ns);
      const auto part = static_cast<int64_t>(std::ceil(share * static_cast<double>(segment.end_ns - segment.begin_ns)));
      saved[i] = std::min({part, left_ns, segment.end_ns - segment.begin_ns});
      left_ns -= saved[i];
    }
  }
  for (const Detour& detour : blame.detours) {
    int64_t room_ns = detour.slack_ns;
    const auto first =
        std::partition_point(blame.segments.begin(), blame.segments.end(),
                             [&](const BlameSegment& segment) { return segment.begin_ns < detour.begin_ns; });
    for (auto i = static_cast<size_t>(first - blame.segments.begin()); i < saved.size(); ++i) {
      if (blame.segments[i].end_ns > detour.end_ns) break;
      saved[i] = std::min(saved[i], room_ns);
      room_ns -= saved[i];
    }
  }
  int64_t total_ns = 0;
  for (const int64_t ns : saved) total_ns += ns;
  // Where other parts were shorter than usual, the request is as fast as usual with less.
  return std::min(total_ns, std::max<int64_t>(excess_ns, 0));
}

}  // namespace analyze
PITOT_NAMESPACE_END
