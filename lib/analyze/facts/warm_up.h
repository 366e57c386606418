// SPDX-License-Identifier: Apache-2.0
//
// The time in which a window may be warming up.
#ifndef PITOT_LIB_ANALYZE_FACTS_WARM_UP_H_
#define PITOT_LIB_ANALYZE_FACTS_WARM_UP_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "analyze/facts/patience.h"
#include "pitot/extend/analyzer.h"
#include "pitot/model/classes.h"
#include "pitot/model/trace.h"

namespace pitot::facts {

// The end of the `units`th request to end or, in a trace of a profiler, of the step. Nothing if there are no
// more than `units`: the warm-up is unknown then. A server that was warm already loses little by it. O(n). Throws Over.
inline std::optional<int64_t> WarmUpEnd(Analysis& analysis, size_t units) {
  const model::Trace& trace = analysis.trace();
  std::vector<int64_t> ends;
  for (const model::RequestRow& request : trace.requests) {
    if (request.end_known) ends.push_back(request.begin_ns + request.duration_ns);
  }
  if (ends.empty()) {
    const model::Steps steps(trace);
    for (const uint32_t event : EachOf(analysis, trace.events.size())) {
      if (steps.IsSite(trace.events.site[event]) && trace.events.duration_ns[event] != model::kOpen)
        ends.push_back(trace.EventEnd(event));
    }
  }
  if (ends.size() <= units) return std::nullopt;
  if (units == 0) return trace.window_begin_ns;
  std::nth_element(ends.begin(), ends.begin() + static_cast<std::ptrdiff_t>(units - 1), ends.end());
  return ends[units - 1];
}

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_WARM_UP_H_
