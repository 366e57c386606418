// SPDX-License-Identifier: Apache-2.0
#include "analyze/facts/host_work.h"

#include <algorithm>
#include <utility>

#include "analyze/facts/patience.h"
#include "model/flatten.h"
#include "pitot/model/indexes.h"

namespace pitot::facts {

using model::Interval;
using model::Intervals;
using model::kNone;
using model::Trace;

namespace {

// Appends the part of a set within `interval`. O(log n) and the number found.
void AppendWithin(const Intervals& set, const Interval& interval, std::vector<Interval>* within) {
  const auto first = std::partition_point(set.begin(), set.end(),
                                          [&](const Interval& other) { return other.end_ns <= interval.begin_ns; });
  for (auto at = first; at != set.end() && at->begin_ns < interval.end_ns; ++at)
    within->push_back({std::max(at->begin_ns, interval.begin_ns), std::min(at->end_ns, interval.end_ns)});
}

}  // namespace

std::vector<uint32_t> FirstCalls(const Trace& trace) {
  std::vector<uint32_t> first(trace.threads.size() + 1);
  const std::vector<uint32_t>& thread = trace.calls.thread;  // ascending, kNone last
  for (uint32_t t = 0; t < first.size(); ++t)
    first[t] = static_cast<uint32_t>(std::lower_bound(thread.begin(), thread.end(), t) - thread.begin());
  return first;
}

Intervals WorkForAny(Analysis& analysis, uint32_t thread, Interval time, const std::vector<uint32_t>& first_calls) {
  const Trace& trace = analysis.trace();
  std::vector<Interval> working, waiting;
  NowAndThen asking(analysis);
  model::VisitSegments(trace, thread, time, [&](const model::Segment& segment) {
    asking.Count();
    const uint32_t event = segment.event;
    const bool is_for_any = trace.events.request[event] != kNone || trace.events.batch[event] != kNone;
    if (is_for_any && trace.sites[trace.events.site[event]].kind != SiteKind::kWait)
      model::AddTo(&working, {segment.begin_ns, segment.end_ns});
  });
  if (working.empty()) return {};
  const model::WaitingCalls& waiting_calls = analysis.indexes().waiting;
  for (uint32_t call = first_calls[thread]; call < first_calls[thread + 1]; ++call) {
    if (waiting_calls.Has(call)) waiting.push_back({trace.calls.begin_ns[call], trace.CallEnd(call)});
  }
  return model::Difference(model::Union(std::move(working)), model::Union(std::move(waiting)));
}

std::string GroupOfThread(std::string_view thread) {
  size_t end = thread.size();
  while (end > 0 && thread[end - 1] >= '0' && thread[end - 1] <= '9') --end;
  if (end == thread.size() || end == 0) return std::string(thread);
  while (end > 1 && (thread[end - 1] == ' ' || thread[end - 1] == '-' || thread[end - 1] == '_' ||
                     thread[end - 1] == '#' || thread[end - 1] == '/'))
    --end;
  return std::string(thread.substr(0, end));
}

HostWork::HostWork(const Trace& trace) {
  const Interval window{trace.window_begin_ns, trace.window_end_ns};
  std::vector<std::vector<Interval>> of_batches(trace.batches.size()), of_requests(trace.requests.size());
  std::vector<Interval> of_all;
  const auto add = [&](uint32_t request, uint32_t batch, int64_t begin_ns, int64_t end_ns) {
    const Interval worked{std::max(begin_ns, window.begin_ns), std::min(end_ns, window.end_ns)};
    if (worked.end_ns <= worked.begin_ns) return;
    model::AddTo(&of_all, worked);
    if (batch != kNone) model::AddTo(&of_batches[batch], worked);
    if (request != kNone) model::AddTo(&of_requests[request], worked);
  };
  const model::WaitingCalls waiting(trace);
  const std::vector<uint32_t> first_calls = FirstCalls(trace);
  for (uint32_t thread = 0; thread < trace.threads.size(); ++thread) {
    std::vector<Interval> calls_waiting;
    for (uint32_t call = first_calls[thread]; call < first_calls[thread + 1]; ++call) {
      if (waiting.Has(call)) {
        calls_waiting.push_back({trace.calls.begin_ns[call], trace.CallEnd(call)});
      } else {
        add(trace.calls.request[call], trace.calls.batch[call], trace.calls.begin_ns[call], trace.CallEnd(call));
      }
    }
    const Intervals waits = model::Union(std::move(calls_waiting));
    size_t wait = 0;
    model::VisitSegments(trace, thread, window, [&](const model::Segment& segment) {
      const uint32_t event = segment.event;
      if (trace.sites[trace.events.site[event]].kind == SiteKind::kWait) return;
      const uint32_t request = trace.events.request[event], batch = trace.events.batch[event];
      int64_t begin_ns = segment.begin_ns;
      while (wait < waits.size() && waits[wait].end_ns <= begin_ns) ++wait;
      for (size_t i = wait; i < waits.size() && waits[i].begin_ns < segment.end_ns; ++i) {
        add(request, batch, begin_ns, waits[i].begin_ns);
        begin_ns = waits[i].end_ns;
      }
      add(request, batch, begin_ns, segment.end_ns);
    });
  }
  for (uint32_t call = first_calls.back(); call < trace.calls.size(); ++call) {
    if (!waiting.Has(call))
      add(trace.calls.request[call], trace.calls.batch[call], trace.calls.begin_ns[call], trace.CallEnd(call));
  }
  for (auto& intervals : of_batches) batches_.push_back(model::Union(std::move(intervals)));
  for (auto& intervals : of_requests) requests_.push_back(model::Union(std::move(intervals)));
  all_ = model::Union(std::move(of_all));
}

Intervals HostWork::OfBatch(const Trace& trace, uint32_t batch, Interval within) const {
  std::vector<Interval> intervals;
  AppendWithin(batches_[batch], within, &intervals);
  const model::BatchRow& row = trace.batches[batch];
  for (uint32_t member = row.first_member; member < row.first_member + row.member_count; ++member) {
    if (trace.members[member].request != kNone)
      AppendWithin(requests_[trace.members[member].request], within, &intervals);
  }
  return model::Union(std::move(intervals));
}

}  // namespace pitot::facts
