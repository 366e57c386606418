// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>

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

std::vector<MemoryPeak> MemoryPeaksOf(const Trace& trace, const RequestIndex& requests, const CounterIndex& counters,
                                      uint32_t request) {
  struct Span {
    int64_t begin_ns, end_ns;
  };
  std::vector<Span> spans;
  for (const uint32_t batch : requests.Batches(request)) {
    const BatchRow& row = trace.batches[batch];
    spans.push_back({row.begin_ns, row.duration_ns == kOpen ? trace.window_end_ns : row.begin_ns + row.duration_ns});
  }
  if (spans.empty()) spans.push_back({trace.requests[request].begin_ns, trace.RequestEnd(trace.requests[request])});

  std::vector<MemoryPeak> peaks;
  for (uint32_t counter = 0; counter < trace.counters.size(); ++counter) {
    const CounterRow& row = trace.counters[counter];
    const std::string_view name = trace.strings[row.name];
    if (!name.ends_with("allocated") || trace.strings[row.unit] != "bytes") continue;
    std::optional<double> most;
    int64_t begin_ns = INT64_MAX;
    for (const Span& span : spans) {
      most = std::max(most, counters.Most(counter, span.begin_ns, span.end_ns));
      begin_ns = std::min(begin_ns, span.begin_ns);
    }
    if (!most) continue;
    const auto bytes = [](double value) { return static_cast<uint64_t>(std::max(value, 0.0)); };
    peaks.push_back({counter, bytes(*most), bytes(counters.At(counter, begin_ns).value_or(0))});
  }
  return peaks;
}

}  // namespace model
PITOT_NAMESPACE_END
