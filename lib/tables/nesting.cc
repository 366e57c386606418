// SPDX-License-Identifier: Apache-2.0
#include "tables/nesting.h"

#include <algorithm>

#include "model/flatten.h"
#include "model/interpreter_watch.h"

namespace pitot::tables {

Nesting::Nesting(const model::Trace& trace) : trace_(trace) {
  for (const model::SiteRow& site : trace.sites)
    is_counted_.push_back(model::IsScope(site.kind) && !model::IsInterpreterWatch(trace, site));
}

Nesting::Nested& Nesting::Of(uint32_t event) {
  const uint32_t thread = trace_.events.thread[event];
  if (thread != thread_) Learn(thread);
  return nested_[event - trace_.threads[thread].first_event];
}

void Nesting::Learn(uint32_t thread) {
  const model::ThreadRow& row = trace_.threads[thread];
  const model::Interval known = {std::clamp(row.history_begin_ns, trace_.window_begin_ns, trace_.window_end_ns),
                                 trace_.window_end_ns};
  thread_ = thread;
  nested_.assign(row.event_count, {});
  const auto add = [&](const model::Segment& segment) {
    nested_[segment.event - row.first_event].self_ns += segment.end_ns - segment.begin_ns;
  };
  std::vector<uint32_t> open;
  model::Flattening flattening(known, add);
  const auto any = [](uint32_t) { return true; };
  model::VisitNested(trace_, row.first_event, row.first_event + row.event_count, any, [&](uint32_t event) {
    const int64_t begin_ns = trace_.events.begin_ns[event], end_ns = trace_.EventEnd(event);
    while (!open.empty() && trace_.EventEnd(open.back()) <= begin_ns &&
           trace_.events.duration_ns[open.back()] != model::kOpen)
      open.pop_back();
    if (!open.empty()) nested_[event - row.first_event].parent = open.back();
    if (!is_counted_[trace_.events.site[event]]) return;
    open.push_back(event);
    if (begin_ns < known.end_ns && end_ns > std::max(begin_ns, known.begin_ns))
      flattening.Begin(begin_ns, end_ns, event);
  });
  flattening.End();
}

}  // namespace pitot::tables
