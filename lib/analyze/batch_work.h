// SPDX-License-Identifier: Apache-2.0
//
// When batches were at work: once they waited for no more members.
#ifndef PITOT_LIB_ANALYZE_BATCH_WORK_H_
#define PITOT_LIB_ANALYZE_BATCH_WORK_H_

#include <algorithm>
#include <vector>

#include "pitot/model/intervals.h"
#include "pitot/model/trace.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// Of each batch its time, without the waits that its thread begins it with: its window. Of one that is open, all of it
// that is known, which is nothing. O(n) of the events.
inline std::vector<model::Interval> BatchWork(const model::Trace& trace) {
  std::vector<model::Interval> work;
  for (const model::BatchRow& batch : trace.batches)
    work.push_back({batch.begin_ns, batch.begin_ns + std::max<int64_t>(0, batch.duration_ns)});
  std::vector<bool> is_closed(trace.batches.size());
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    const uint32_t batch = trace.events.batch[event];
    const SiteKind kind = trace.sites[trace.events.site[event]].kind;
    if (batch == model::kNone || is_closed[batch] || !model::IsScope(kind)) continue;
    if (trace.events.thread[event] != trace.batches[batch].thread ||
        trace.events.begin_ns[event] < trace.batches[batch].begin_ns)
      continue;
    if (kind == SiteKind::kWait)
      work[batch].begin_ns = std::clamp(trace.EventEnd(event), work[batch].begin_ns, work[batch].end_ns);
    else
      is_closed[batch] = true;
  }
  return work;
}

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_BATCH_WORK_H_
