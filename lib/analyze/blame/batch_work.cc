// SPDX-License-Identifier: Apache-2.0
#include "analyze/blame/batch_work.h"

#include <algorithm>

#include "analyze/blame/index_data.h"
#include "analyze/facts/patience.h"
#include "pitot/request.h"

namespace pitot::blame {

using model::kNone;
using model::Trace;

namespace {

using facts::EachOf;

void CutWindows(const Trace& trace, std::vector<BatchTime>* times) {
  std::vector<bool> is_closed(trace.batches.size());
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    const uint32_t batch = trace.events.batch[event];
    const SiteKind kind = trace.sites[trace.events.site[event]].kind;
    if (batch == kNone || is_closed[batch] || !model::IsScope(kind)) continue;
    if (trace.events.thread[event] != trace.batches[batch].thread ||
        trace.events.begin_ns[event] < trace.batches[batch].begin_ns)
      continue;
    model::Interval& when = (*times)[batch].when;
    if (kind == SiteKind::kWait)
      when.begin_ns = std::clamp(trace.EventEnd(event), when.begin_ns, when.end_ns);
    else
      is_closed[batch] = true;
  }
}

}  // namespace

std::vector<BatchTime> BatchWindows(const Trace& trace) {
  std::vector<BatchTime> times;
  for (const model::BatchRow& batch : trace.batches) {
    const bool is_step = batch.close == static_cast<uint8_t>(BatchClose::kStep);
    const int64_t length_ns = is_step ? 0 : std::max<int64_t>(0, batch.duration_ns);
    times.push_back({{batch.begin_ns, batch.begin_ns + length_ns}, 0});
  }
  CutWindows(trace, &times);
  for (BatchTime& time : times) time.work_ns = time.when.end_ns - time.when.begin_ns;
  return times;
}

std::vector<BatchTime> BatchTimes(Analysis& analysis) {
  const Trace& trace = analysis.trace();
  std::vector<BatchTime> times = BatchWindows(trace);
  if (times.empty() || !HasHostUse(trace)) return times;
  const Index& index = SharedIndex(analysis);
  for (const uint32_t row : EachOf(analysis, times.size())) {
    BatchTime& time = times[row];
    if (time.work_ns == 0 || trace.batches[row].thread == kNone) continue;
    const OffCpu off = index.host.OfCode(trace.batches[row].thread, time.when.begin_ns, time.when.end_ns);
    time.work_ns -= std::min(time.work_ns, off.runqueue_ns);
  }
  return times;
}

}  // namespace pitot::blame
