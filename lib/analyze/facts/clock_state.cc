// SPDX-License-Identifier: Apache-2.0
#include "analyze/facts/clock_state.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "analyze/facts/gpu_counters.h"
#include "base/columns.h"
#include "base/host_counters.h"
#include "base/quantile.h"
#include "model/held.h"
#include "model/parts.h"

namespace pitot::facts {
namespace {

// The mean within and the median outside of `when`, by time; 0: unknown.
std::pair<double, double> WithinAndElse(const model::Trace& trace, uint32_t counter, model::Interval when) {
  std::vector<std::pair<double, int64_t>> outside;
  double sum = 0;
  int64_t inside_ns = 0;
  for (const model::Held& held : ValuesOf(trace, counter)) {
    const int64_t within_ns =
        std::max<int64_t>(0, std::min(held.when.end_ns, when.end_ns) - std::max(held.when.begin_ns, when.begin_ns));
    sum += held.value * static_cast<double>(within_ns);
    inside_ns += within_ns;
    if (held.ns() > within_ns) outside.emplace_back(held.value, held.ns() - within_ns);
  }
  return {inside_ns == 0 ? 0 : sum / static_cast<double>(inside_ns), base::WeightedQuantile(std::move(outside), 0.5)};
}

}  // namespace

std::string ClockState(const model::Trace& trace, model::Interval when) {
  std::vector<std::pair<std::string, uint32_t>> clocks;
  for (const auto& [key, gpu] : GpuCountersOf(trace)) {
    if (const uint32_t row = gpu.Find(base::GpuCounter::kSmClock); row != model::kNone)
      clocks.emplace_back("SM clock of " + std::string(gpu.name), row);
  }
  const std::string cpu = base::HostCounter(base::kCpuFrequency);
  const model::Parts parts(trace);
  for (uint32_t row = 0; row < trace.counters.size(); ++row) {
    const auto [part, own] = parts.Split(trace.strings[trace.counters[row].name]);
    if (own == cpu) clocks.emplace_back(parts.NameOf(part, base::kCpuFrequency.name), row);
  }
  std::string lower;
  bool is_known = false;
  for (const auto& [name, row] : clocks) {
    const auto [within, usual] = WithinAndElse(trace, row, when);
    if (within <= 0 || usual <= 0) continue;
    is_known = true;
    if (within <= (1 - kClockDrop) * usual)
      lower += (lower.empty() ? "" : "; ") + name + base::Format(" at %.0f MHz, otherwise %.0f MHz", within, usual);
  }
  return !lower.empty() ? lower : is_known ? "no recorded clock was lower" : "";
}

}  // namespace pitot::facts
