// SPDX-License-Identifier: Apache-2.0
#include "analyze/facts/counter_means.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

#include "analyze/facts/gpu_counters.h"
#include "model/held.h"

namespace pitot::facts {
namespace {

using base::GpuCounter;
using model::Held;
using model::Interval;
using model::Intervals;
using model::kNone;
using model::Trace;

constexpr size_t kMostSamples = 1'000'000;  // that equal values are divided into

// When a device was sampled.
Intervals SampledOf(const Trace& trace, uint32_t sampled) {
  Intervals intervals;
  for (const Held& held : ValuesOf(trace, sampled, model::kHoldsOnNs)) {
    if (held.value != 0) intervals.push_back(held.when);
  }
  return intervals;
}

// The time from one sample to the next: as recorded, otherwise the least time between two values. 0: unknown.
int64_t SpacingOf(const Trace& trace, uint32_t device, const std::vector<Held>& values) {
  const std::string key = "counters." + std::to_string(trace.devices[device].ordinal) + ".interval_us";
  const std::string_view recorded = trace.AttributeOf(key);
  int64_t us = 0;
  if (std::from_chars(recorded.data(), recorded.data() + recorded.size(), us).ec == std::errc() && us > 0 &&
      us < 1'000'000'000)
    return us * 1000;
  int64_t least_ns = 0;
  for (size_t i = 1; i + 1 < values.size(); ++i)
    least_ns = least_ns == 0 ? values[i].ns() : std::min(least_ns, values[i].ns());
  return least_ns;
}

}  // namespace

CounterMeans::CounterMeans(const Trace& trace, const std::vector<GpuCounter>& counters) {
  for (uint32_t device = 0; device < trace.devices.size(); ++device) {
    const uint32_t sampled = CounterOf(trace, device, GpuCounter::kSampled);
    if (sampled == kNone) continue;
    const Intervals times = SampledOf(trace, sampled);
    for (const GpuCounter counter : counters) {
      const uint32_t row = CounterOf(trace, device, counter);
      if (row == kNone) continue;
      const std::vector<Held> values = ValuesOf(trace, row, model::kHoldsOnNs);
      const int64_t spacing_ns = SpacingOf(trace, device, values);
      if (values.empty() || spacing_ns == 0) continue;
      const auto most = static_cast<int64_t>(kMostSamples / values.size() + 1);
      std::vector<Sample>& samples = samples_[{device, counter}];
      size_t first = 0;  // of `times`, the first that may overlap
      for (const Held& held : values) {
        if (!std::isfinite(held.value)) continue;
        while (first < times.size() && times[first].end_ns <= held.when.begin_ns) ++first;
        for (size_t i = first; i < times.size() && times[i].begin_ns < held.when.end_ns; ++i) {
          const Interval part = {std::max(held.when.begin_ns, times[i].begin_ns),
                                 std::min(held.when.end_ns, times[i].end_ns)};
          // Equal samples are recorded once.
          const int64_t count =
              std::clamp<int64_t>((part.end_ns - part.begin_ns + spacing_ns / 2) / spacing_ns, 1, most);
          const int64_t each_ns = (part.end_ns - part.begin_ns) / count;
          for (int64_t k = 0; k < count; ++k) {
            const int64_t begin_ns = part.begin_ns + k * each_ns;
            samples.push_back({{begin_ns, k + 1 == count ? part.end_ns : begin_ns + each_ns}, held.value});
          }
        }
      }
    }
  }
}

std::optional<CounterMean> CounterMeans::Of(uint32_t device, GpuCounter counter, const Intervals& times) const {
  const auto found = samples_.find({device, counter});
  if (found == samples_.end()) return std::nullopt;
  const std::vector<Sample>& samples = found->second;
  double sum = 0, sum_ns = 0;
  uint64_t count = 0;
  auto at = samples.begin();
  int64_t filled_ns = 0;  // of *at
  const auto leave = [&] {
    const int64_t ns = at->when.end_ns - at->when.begin_ns;
    if (filled_ns > 0 && static_cast<double>(filled_ns) >= kLeastShare * static_cast<double>(ns)) {
      sum += at->value * static_cast<double>(ns);
      sum_ns += static_cast<double>(ns);
      ++count;
    }
    filled_ns = 0;
  };
  for (const Interval& time : times) {
    if (at != samples.end() && at->when.end_ns <= time.begin_ns) {
      leave();
      at = std::partition_point(at, samples.end(), [&](const Sample& s) { return s.when.end_ns <= time.begin_ns; });
    }
    while (at != samples.end() && at->when.begin_ns < time.end_ns) {
      filled_ns +=
          std::max<int64_t>(0, std::min(at->when.end_ns, time.end_ns) - std::max(at->when.begin_ns, time.begin_ns));
      if (at->when.end_ns > time.end_ns) break;
      leave();
      ++at;
    }
  }
  if (at != samples.end()) leave();
  if (count < kLeastSamples) return std::nullopt;
  return CounterMean{sum / sum_ns, count};
}

}  // namespace pitot::facts
