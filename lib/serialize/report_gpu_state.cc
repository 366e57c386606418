// SPDX-License-Identifier: Apache-2.0
#include "serialize/report_gpu_state.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "base/quantile.h"
#include "model/held.h"
#include "model/parts.h"
#include "pitot/model/intervals.h"

namespace pitot::report {
namespace {

using base::Cut;
using base::Duration;
using base::Format;
using base::Lines;
using base::Plural;
using model::Held;
using model::Interval;
using model::Intervals;
using model::kHoldsOnNs;
using model::Trace;

constexpr size_t kMaxGpus = 8;
using base::GpuCounter;
using base::kClocksHeldBy;

bool IsShown(std::string_view counter) {
  if (counter.substr(0, kClocksHeldBy.size()) == kClocksHeldBy) return true;
  for (const GpuCounter shown : {GpuCounter::kSmClock, GpuCounter::kMemoryClock, GpuCounter::kPower,
                                 GpuCounter::kTemperature, GpuCounter::kUtilization, GpuCounter::kClockEventReasons}) {
    if (counter == base::NameOf(shown)) return true;
  }
  return false;
}

// The times when a counter was known and, for kNotZero, not 0.
enum class Which : uint8_t { kAll, kNotZero };
Intervals TimesOf(const std::vector<Held>& values, Which which) {
  std::vector<Interval> times;
  for (const Held& held : values) {
    if (which == Which::kAll || held.value != 0) times.push_back(held.when);
  }
  return model::Union(std::move(times));
}

}  // namespace

GpuState::GpuState(const Trace& trace) : trace_(trace) {
  for (const model::GpuStateCounter& one : GpuStateCounters(trace)) {
    if (IsShown(one.counter)) gpus_[std::string(one.gpu)][std::string(one.counter)] = one.row;
  }
}

void GpuState::Write(Lines* lines) const {
  size_t shown = 0;
  for (const auto& [gpu, counters] : gpus_) {
    lines->Blank();
    if (shown++ == kMaxGpus)
      return lines->Add(3, "and the state of " + Plural(gpus_.size() - kMaxGpus, "GPU") + " more");
    lines->Add(3, "state of " + Cut(gpu, 48) + " over the window: median (least..most)");
    Clocks(counters, lines);
    std::string text = Usual(counters, GpuCounter::kPower, "");
    for (const auto& [counter, name] :
         {std::pair(GpuCounter::kTemperature, "temperature "), std::pair(GpuCounter::kUtilization, "utilization ")}) {
      const std::string value = Usual(counters, counter, name);
      if (!value.empty()) text += (text.empty() ? "" : ", ") + value;
    }
    if (!text.empty()) lines->AddWrapped(7, "power      ", text);
  }
}

// "1980 MHz (1200..1980)"; "" if unknown.
std::string GpuState::Usual(const Counters& of, GpuCounter counter, const char* shown) const {
  const auto found = of.find(std::string(base::NameOf(counter)));
  if (found == of.end()) return {};
  std::vector<std::pair<double, int64_t>> values;  // and their times
  for (const Held& held : ValuesOf(trace_, found->second)) values.emplace_back(held.value, held.ns());
  if (values.empty()) return {};
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const std::string unit(trace_.strings[trace_.counters[found->second].unit]);
  std::string text = shown + Format("%.0f ", base::WeightedQuantile(values, 0.5)) + unit;
  if (least->first != most->first) text += Format(" (%.0f..%.0f)", least->first, most->first);
  return text;
}

void GpuState::Clocks(const Counters& of, Lines* lines) const {
  std::string clocks = Usual(of, GpuCounter::kSmClock, "SM ");
  const std::string memory = Usual(of, GpuCounter::kMemoryClock, "memory ");
  if (!memory.empty()) clocks += (clocks.empty() ? "" : ", ") + memory;
  if (!clocks.empty()) lines->AddWrapped(7, "clocks     ", clocks);

  const auto reasons = of.find(std::string(base::NameOf(GpuCounter::kClockEventReasons)));
  if (reasons == of.end()) return;
  const Intervals known = TimesOf(ValuesOf(trace_, reasons->second), Which::kAll);
  const int64_t known_ns = model::TotalNs(known);
  if (known_ns == 0) return;
  std::vector<std::pair<int64_t, std::string>> throttled, held;
  for (const auto& [name, counter] : of) {
    if (name.compare(0, kClocksHeldBy.size(), kClocksHeldBy) != 0) continue;
    const Intervals active = TimesOf(ValuesOf(trace_, counter, kHoldsOnNs), Which::kNotZero);
    const int64_t ns = model::TotalNs(model::Intersection(active, known));
    const std::string reason = name.substr(kClocksHeldBy.size());
    if (ns > 0) (base::IsThrottling(reason) ? throttled : held).emplace_back(ns, reason);
  }
  const std::string of_what = known_ns >= trace_.window_end_ns - trace_.window_begin_ns
                                  ? " of the window"
                                  : " of the sampled " + Duration(known_ns);
  const auto list = [&](std::vector<std::pair<int64_t, std::string>>* kinds) {
    std::stable_sort(kinds->begin(), kinds->end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::string text;
    for (const auto& [ns, reason] : *kinds) {
      const double percent = 100.0 * static_cast<double>(ns) / static_cast<double>(known_ns);
      text += (text.empty() ? "" : ", ") + Cut(reason, 32) + (percent < 0.1 ? " < 0.1 %" : Format(" %.1f %%", percent));
    }
    return text + of_what;
  };
  lines->AddWrapped(7, "throttled  ", throttled.empty() ? "at no time" + of_what : list(&throttled));
  if (!held.empty()) lines->AddWrapped(7, "held low   ", "by " + list(&held));
}

}  // namespace pitot::report
