// SPDX-License-Identifier: Apache-2.0
#include "analyze/blame/gpu_use.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/gpu_counters.h"

namespace pitot::blame {

using model::kNone;
using model::Trace;

namespace {

using base::GpuCounter;

// By GpuUse::Engine.
constexpr GpuCounter kTellers[GpuUse::kEngines] = {GpuCounter::kEngineActive, GpuCounter::kPcieReceiving,
                                                   GpuCounter::kPcieSending};
// From this rate on, in bytes/s, the bus is busy with copies. Launches and results of a server that saturates an H100
// take 0.03e9 at most, a copy of pageable memory 11e9 (docs/lab/counters.md).
constexpr double kCopying = 1e9;

// The samples of a counter, in order.
struct CounterSamples {
  std::span<const int64_t> at_ns;
  std::span<const double> values;
};
CounterSamples CounterSamplesOf(const Trace& trace, uint32_t counter) {
  const auto [first, last] = std::equal_range(trace.samples.counter.begin(), trace.samples.counter.end(), counter);
  const auto begin = static_cast<size_t>(first - trace.samples.counter.begin());
  const auto count = static_cast<size_t>(last - first);
  return {{trace.samples.at_ns.data() + begin, count}, {trace.samples.value.data() + begin, count}};
}

}  // namespace

GpuUse::GpuUse(const Trace& trace) {
  uint32_t sampled = kNone;
  for (uint32_t row = 0; row < trace.counters.size(); ++row) {
    if (trace.counters[row].device == kNone ||
        trace.strings[trace.counters[row].name] != base::NameOf(GpuCounter::kSampled))
      continue;
    if (sampled != kNone) return;  // several devices
    sampled = row;
  }
  if (sampled == kNone) return;
  const uint32_t device = trace.counters[sampled].device;
  for (uint32_t row = 0; row < trace.counters.size(); ++row) {
    for (uint32_t engine = 0; engine < kEngines; ++engine) {
      if (trace.counters[row].device == device &&
          trace.strings[trace.counters[row].name] == base::NameOf(kTellers[engine]))
        counters_[engine] = row;
    }
  }
  if (counters_[kCompute] == kNone) return;  // NVML's GPM has none, and means over 0.1 s tell no moment
  const CounterSamples is_sampled = CounterSamplesOf(trace, sampled);
  for (size_t i = 0; i + 1 < is_sampled.at_ns.size(); ++i) {
    if (is_sampled.values[i] != 0) sampled_.push_back({is_sampled.at_ns[i], is_sampled.at_ns[i + 1]});
  }
  sampled_ = model::Union(std::move(sampled_));
  for (const Engine engine : {kCompute, kToGpu, kFromGpu}) {
    if (counters_[engine] != kNone) FindBusy(trace, engine);
  }
}

void GpuUse::FindBusy(const Trace& trace, Engine engine) {
  const CounterSamples active = CounterSamplesOf(trace, counters_[engine]);
  auto known = sampled_.begin();
  for (size_t i = 0; i < active.at_ns.size(); ++i) {
    // The value holds until the next one, as far as the device was sampled.
    const int64_t begin_ns = active.at_ns[i];
    const int64_t end_ns = i + 1 < active.at_ns.size() ? active.at_ns[i + 1] : INT64_MAX;
    while (known != sampled_.end() && known->end_ns <= begin_ns) ++known;
    if (known == sampled_.end()) break;
    const double share = engine == kCompute             ? std::min(active.values[i] / 100, 1.0)
                         : active.values[i] >= kCopying ? 1
                                                        : 0;
    if (known->begin_ns <= begin_ns && share > 0)
      samples_[engine].push_back({begin_ns, std::min(end_ns, known->end_ns), share});
  }
}

bool GpuUse::IsSampled(int64_t begin_ns, int64_t end_ns) const {
  const auto after = std::partition_point(sampled_.begin(), sampled_.end(),
                                          [&](const model::Interval& one) { return one.end_ns < end_ns; });
  return after != sampled_.end() && after->begin_ns <= begin_ns;
}

int64_t GpuUse::BusyNs(Engine engine, int64_t begin_ns, int64_t end_ns) const {
  const std::vector<Sample>& samples = samples_[engine];
  auto at = std::partition_point(samples.begin(), samples.end(),
                                 [&](const Sample& sample) { return sample.end_ns <= begin_ns; });
  double busy_ns = 0;
  for (; at != samples.end() && at->begin_ns < end_ns; ++at)
    busy_ns += at->share * static_cast<double>(std::min(at->end_ns, end_ns) - std::max(at->begin_ns, begin_ns));
  return static_cast<int64_t>(busy_ns);
}

}  // namespace pitot::blame
