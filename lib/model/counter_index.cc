// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "pitot/model/index.h"

PITOT_NAMESPACE_BEGIN
namespace model {

CounterIndex::CounterIndex(const Trace& trace) : trace_(trace), starts_(trace.counters.size() + 1) {
  for (const uint32_t counter : trace.samples.counter) ++starts_[counter + 1];
  for (size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
}

uint32_t CounterIndex::After(uint32_t counter, int64_t at_ns) const {
  const int64_t* const times = trace_.samples.at_ns.data();
  return static_cast<uint32_t>(std::upper_bound(times + starts_[counter], times + starts_[counter + 1], at_ns) - times);
}

std::optional<double> CounterIndex::At(uint32_t counter, int64_t at_ns) const {
  const uint32_t after = After(counter, at_ns);
  if (after == starts_[counter]) return std::nullopt;
  return trace_.samples.value[after - 1];
}

std::optional<double> CounterIndex::Most(uint32_t counter, int64_t begin_ns, int64_t end_ns) const {
  std::optional<double> most = At(counter, begin_ns);
  for (uint32_t i = After(counter, begin_ns), end = After(counter, end_ns); i < end; ++i) {
    if (!most || trace_.samples.value[i] > *most) most = trace_.samples.value[i];
  }
  return most;
}

namespace {

// The times when a request was in work, as far as they are known: before it was queued or joined a batch, in its
// batches, in its recorded events, and after its last batch.
std::vector<Interval> WorkOn(const Trace& trace, const RequestIndex& requests, uint32_t request) {
  const RequestRow& row = trace.requests[request];
  const int64_t end_ns = trace.RequestEnd(row);
  int64_t left_ns = end_ns, last_ns = INT64_MIN;
  std::vector<Interval> spans;
  for (const uint32_t batch : requests.Batches(request)) {
    const BatchRow& ran = trace.batches[batch];
    const int64_t ran_end_ns = trace.BatchEnd(ran);
    spans.push_back({ran.begin_ns, ran_end_ns});
    left_ns = std::min(left_ns, ran.begin_ns), last_ns = std::max(last_ns, ran_end_ns);
  }
  for (const uint32_t handoff : requests.Handoffs(request)) {
    const int64_t queued_ns = trace.handoffs[handoff].enqueue_ns;
    if (queued_ns >= row.begin_ns && !spans.empty()) left_ns = std::min(left_ns, queued_ns);
  }
  spans.push_back({row.begin_ns, std::max(row.begin_ns, left_ns)});
  if (last_ns != INT64_MIN && last_ns < end_ns) spans.push_back({last_ns, end_ns});
  for (const uint32_t event : requests.Events(request))
    spans.push_back({trace.events.begin_ns[event], trace.EventEnd(event)});
  return Union(std::move(spans));
}

}  // namespace

std::vector<MemoryPeak> MemoryPeaksOf(const Trace& trace, const RequestIndex& requests, const CounterIndex& counters,
                                      uint32_t request) {
  const Intervals spans = WorkOn(trace, requests, request);
  std::vector<MemoryPeak> peaks;
  for (uint32_t counter = 0; counter < trace.counters.size(); ++counter) {
    const CounterRow& row = trace.counters[counter];
    const std::string_view name = trace.strings[row.name];
    if (!name.ends_with("allocated") || trace.strings[row.unit] != "bytes") continue;
    std::optional<double> most;
    for (const Interval& span : spans) most = std::max(most, counters.Most(counter, span.begin_ns, span.end_ns));
    if (!most) continue;
    const auto bytes = [](double value) { return static_cast<uint64_t>(std::max(value, 0.0)); };
    peaks.push_back({counter, bytes(*most), bytes(counters.At(counter, trace.requests[request].begin_ns).value_or(0))});
  }
  return peaks;
}

}  // namespace model
PITOT_NAMESPACE_END
