// SPDX-License-Identifier: Apache-2.0
#include "cli/view/counter_values.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

#include "base/gpu_counters.h"
#include "base/host_counters.h"
#include "model/held.h"

namespace pitot::cli::view {
namespace {

using base::GpuCounter;
using model::kNone;
using model::Trace;
using Samples = std::vector<std::pair<int64_t, double>>;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Running sums whose rate says more than the sum. Those of errors are left out: an error is seen as a step.
constexpr const char* kHostSums[] = {
    base::kOnCpu.name,          base::kRunQueueDelay.name,     base::kVoluntary.name,     base::kInvoluntary.name,
    base::kMinorFaults.name,    base::kMajorFaults.name,       base::kThrottledTime.name, base::kThrottledPeriods.name,
    base::kStolenTime.name,     base::kCpuPressure.name,       base::kIoPressure.name,    base::kIoPressureFull.name,
    base::kMemoryPressure.name, base::kMemoryPressureFull.name};
constexpr GpuCounter kGpuSums[] = {GpuCounter::kPowerCapTime,
                                   GpuCounter::kSoftwareThermalTime,
                                   GpuCounter::kHardwareThermalTime,
                                   GpuCounter::kPowerBrakeTime,
                                   GpuCounter::kPcieSent,
                                   GpuCounter::kPcieReceived};

// "SM clock" of "GPU 0 (NVIDIA H100): SM clock"; "" of a name without a subject. Joined traces put more before it.
std::string_view WhatOf(std::string_view name) {
  constexpr std::string_view kBetween = ": ";
  const size_t end = name.rfind(kBetween);
  return end == std::string_view::npos ? std::string_view() : name.substr(end + kBetween.size());
}

bool IsRunningSum(std::string_view what) {
  return std::find(std::begin(kHostSums), std::end(kHostSums), what) != std::end(kHostSums) ||
         std::any_of(std::begin(kGpuSums), std::end(kGpuSums),
                     [&](GpuCounter sum) { return base::NameOf(sum) == what; });
}

bool IsGpuCounter(std::string_view what) {
  return std::any_of(std::begin(base::kGpuCounters), std::end(base::kGpuCounters),
                     [&](const base::GpuCounterInfo& info) { return info.name == what; });
}

// The rate from each sample to the next, per ns. Not known where the sum began again, and after the last sample.
Samples RatesOf(const Samples& sums) {
  Samples rates;
  for (size_t i = 0; i < sums.size(); ++i) {
    const auto& [at_ns, sum] = sums[i];
    const bool is_last = i + 1 == sums.size();
    if (!is_last && sums[i + 1].first == at_ns) continue;
    const double grown = is_last ? -1 : sums[i + 1].second - sum;
    rates.emplace_back(at_ns, grown < 0 ? kUnknown : grown / static_cast<double>(sums[i + 1].first - at_ns));
  }
  return rates;
}

void MakeRate(ViewedCounter* counter) {
  const bool is_time = counter->unit == "ns";
  counter->samples = RatesOf(counter->samples);
  for (auto& [at_ns, value] : counter->samples) value *= is_time ? 100 : 1e9;
  counter->unit = is_time ? "%" : counter->unit + "/s";
}

// The parts of the samples in `times`.
Samples Within(const Samples& samples, const model::Intervals& times) {
  Samples within;
  auto next = samples.begin();
  double value = kUnknown;
  for (const model::Interval& time : times) {
    for (; next != samples.end() && next->first <= time.begin_ns; ++next) value = next->second;
    within.emplace_back(time.begin_ns, value);
    for (; next != samples.end() && next->first < time.end_ns; ++next) within.push_back(*next), value = next->second;
    within.emplace_back(time.end_ns, kUnknown);
  }
  return within;
}

// No value holds for longer.
Samples HeldFor(const Samples& samples, int64_t holds_ns, int64_t end_ns) {
  Samples held;
  for (size_t i = 0; i < samples.size(); ++i) {
    held.push_back(samples[i]);
    const int64_t next_ns = i + 1 < samples.size() ? samples[i + 1].first : end_ns;
    if (next_ns - samples[i].first > holds_ns) held.emplace_back(samples[i].first + holds_ns, kUnknown);
  }
  return held;
}

// When a device's hardware counters were read.
model::Intervals SampledTimes(const Trace& trace, uint32_t sampled) {
  model::Intervals times;
  for (const model::Held& held : model::ValuesOf(trace, sampled, model::kHoldsOnNs)) {
    if (held.value != 0) times.push_back(held.when);
  }
  return times;
}

}  // namespace

std::vector<ViewedCounter> CounterValues(const Trace& trace) {
  std::vector<ViewedCounter> counters(trace.counters.size());
  for (uint32_t i = 0; i < trace.samples.size(); ++i)
    counters[trace.samples.counter[i]].samples.emplace_back(trace.samples.at_ns[i], trace.samples.value[i]);
  std::vector<uint32_t> sampled(trace.devices.size(), kNone);
  for (uint32_t row = 0; row < counters.size(); ++row) {
    const model::CounterRow& counter = trace.counters[row];
    counters[row].name = trace.strings[counter.name];
    counters[row].unit = trace.strings[counter.unit];
    if (counter.device != kNone && counters[row].name == base::NameOf(GpuCounter::kSampled))
      sampled[counter.device] = row;
  }
  for (uint32_t row = 0; row < counters.size(); ++row) {
    ViewedCounter& counter = counters[row];
    const uint32_t device = trace.counters[row].device;
    const std::string_view what = WhatOf(counter.name);
    if (device != kNone) {
      if (sampled[device] != kNone && sampled[device] != row && IsGpuCounter(counter.name))
        counter.samples = Within(counter.samples, SampledTimes(trace, sampled[device]));
    } else if (IsRunningSum(what)) {
      MakeRate(&counter);
    } else if (IsGpuCounter(what)) {
      counter.samples = HeldFor(counter.samples, model::kHoldsNs, trace.window_end_ns);
    }
  }
  return counters;
}

}  // namespace pitot::cli::view
