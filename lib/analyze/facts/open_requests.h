// SPDX-License-Identifier: Apache-2.0
//
// When there was work to do. A server without requests is idle, and its idle time costs nothing.
#ifndef PITOT_LIB_ANALYZE_FACTS_OPEN_REQUESTS_H_
#define PITOT_LIB_ANALYZE_FACTS_OPEN_REQUESTS_H_

#include <algorithm>
#include <utility>
#include <vector>

#include "pitot/model/intervals.h"
#include "pitot/model/trace.h"

namespace pitot::facts {

// Whether the trace records when there was work to do.
inline bool HasRequests(const model::Trace& trace) { return !trace.requests.empty() || !trace.batches.empty(); }

// When some request or batch was open; those that do not end in the window are open to its end. A batch may begin
// before its requests: it counts from its first member on or, in a trace without any requests, from its beginning.
inline model::Intervals OpenRequests(const model::Trace& trace) {
  std::vector<model::Interval> open;
  for (const model::RequestRow& request : trace.requests)
    open.push_back({request.begin_ns, std::max(request.begin_ns, trace.RequestEnd(request))});
  for (const model::BatchRow& batch : trace.batches) {
    if (!trace.requests.empty() && batch.member_count == 0) continue;
    const int64_t from_ns =
        trace.requests.empty() ? batch.begin_ns : std::max(batch.begin_ns, trace.members[batch.first_member].join_ns);
    open.push_back({from_ns, std::max(from_ns, trace.BatchEnd(batch))});
  }
  return model::Union(std::move(open));
}

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_OPEN_REQUESTS_H_
