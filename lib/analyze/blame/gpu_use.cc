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

// In the place of a device.
constexpr uint32_t kSeveral = kNone - 1;

// Adds a device to those of a row, of which only one is kept.
void AddDevice(uint32_t device, uint32_t row, std::vector<uint32_t>* devices) {
  if (row == kNone || device == kNone) return;
  uint32_t& known = (*devices)[row];
  known = known == kNone || known == device ? device : kSeveral;
}

}  // namespace

std::unique_ptr<const GpuUse::Device> GpuUse::Device::Make(const Trace& trace, uint32_t row) {
  auto device = std::make_unique<Device>();
  uint32_t sampled = kNone;
  for (uint32_t counter = 0; counter < trace.counters.size(); ++counter) {
    if (trace.counters[counter].device != row) continue;
    const std::string_view name = trace.strings[trace.counters[counter].name];
    if (name == base::NameOf(GpuCounter::kSampled)) sampled = counter;
    for (uint32_t engine = 0; engine < kEngines; ++engine) {
      if (name == base::NameOf(kTellers[engine])) device->counters_[engine] = counter;
    }
  }
  // NVML's GPM has no engine, and means over 0.1 s tell no moment.
  if (sampled == kNone || device->counters_[kCompute] == kNone) return nullptr;
  const CounterSamples is_sampled = CounterSamplesOf(trace, sampled);
  for (size_t i = 0; i + 1 < is_sampled.at_ns.size(); ++i) {
    if (is_sampled.values[i] != 0) device->sampled_.push_back({is_sampled.at_ns[i], is_sampled.at_ns[i + 1]});
  }
  device->sampled_ = model::Union(std::move(device->sampled_));
  for (const Engine engine : {kCompute, kToGpu, kFromGpu}) {
    if (device->counters_[engine] != kNone) device->FindBusy(trace, engine);
  }
  return device;
}

GpuUse::GpuUse(const Trace& trace)
    : devices_(trace.devices.size()),
      of_batches_(trace.batches.size(), kNone),
      of_threads_(trace.threads.size(), kNone) {
  std::vector<bool> is_there(devices_.size());
  for (uint32_t row = 0; row < devices_.size(); ++row) devices_[row] = Device::Make(trace, row);
  for (const model::CounterRow& counter : trace.counters) {
    if (counter.device < devices_.size() && trace.strings[counter.name] == base::NameOf(GpuCounter::kSampled))
      is_there[counter.device] = true;  // by whichever source
  }
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    const uint32_t device = trace.streams[trace.gpu.stream[row]].device;
    if (device >= devices_.size()) continue;  // kNone, too
    is_there[device] = true;
    if (trace.gpu.call[row] != kNone) AddDevice(device, trace.calls.batch[trace.gpu.call[row]], &of_batches_);
  }
  for (uint32_t row = 0; row < trace.batches.size(); ++row)
    AddDevice(of_batches_[row], trace.batches[row].thread, &of_threads_);
  if (std::count(is_there.begin(), is_there.end(), true) == 1)
    only_ = static_cast<uint32_t>(std::find(is_there.begin(), is_there.end(), true) - is_there.begin());
}

uint32_t GpuUse::RowOf(uint32_t batch, uint32_t thread) const {
  uint32_t device = only_;
  if (device == kNone && batch != kNone) device = of_batches_[batch];
  if (device == kNone && thread != kNone) device = of_threads_[thread];
  return device < devices_.size() ? device : kNone;
}

bool GpuUse::AreSampled(int64_t begin_ns, int64_t end_ns) const {
  const auto is_lacking = [&](const auto& one) { return one != nullptr && !one->IsSampled(begin_ns, end_ns); };
  return std::any_of(devices_.begin(), devices_.end(), [](const auto& one) { return one != nullptr; }) &&
         std::none_of(devices_.begin(), devices_.end(), is_lacking);
}

void GpuUse::Device::FindBusy(const Trace& trace, Engine engine) {
  const CounterSamples active = CounterSamplesOf(trace, counters_[engine]);
  auto known = sampled_.begin();
  for (size_t i = 0; i < active.at_ns.size(); ++i) {
    // The value holds until the next one, as far as the device was sampled.
    const int64_t begin_ns = active.at_ns[i];
    const int64_t end_ns = i + 1 < active.at_ns.size() ? active.at_ns[i + 1] : INT64_MAX;
    while (known != sampled_.end() && known->end_ns <= begin_ns) ++known;
    if (known == sampled_.end()) break;
    const model::Interval when = {begin_ns, std::min(end_ns, known->end_ns)};
    if (known->begin_ns > begin_ns) continue;
    if (engine != kCompute) {
      if (active.values[i] >= kCopying) AddCopying(when, &samples_[engine]);
    } else if (active.values[i] > 0) {
      samples_[engine].push_back({when.begin_ns, when.end_ns, std::min(active.values[i] / 100, 1.0)});
    }
  }
}

// Copies count in time in which nothing computes: kernels and polling use the bus, too.
void GpuUse::Device::AddCopying(model::Interval when, std::vector<Sample>* copying) const {
  const std::vector<Sample>& computing = samples_[kCompute];
  auto at = std::partition_point(computing.begin(), computing.end(),
                                 [&](const Sample& sample) { return sample.end_ns <= when.begin_ns; });
  while (when.begin_ns < when.end_ns) {
    const bool is_idle = at == computing.end() || at->begin_ns > when.begin_ns;
    const int64_t change_ns = at == computing.end() ? when.end_ns : is_idle ? at->begin_ns : at->end_ns;
    const int64_t end_ns = std::min(change_ns, when.end_ns);
    const double share = is_idle ? 1 : 1 - at->share;
    if (share > 0) copying->push_back({when.begin_ns, end_ns, share});
    if (!is_idle) ++at;
    when.begin_ns = end_ns;
  }
}

bool GpuUse::Device::IsSampled(int64_t begin_ns, int64_t end_ns) const {
  const auto after = std::partition_point(sampled_.begin(), sampled_.end(),
                                          [&](const model::Interval& one) { return one.end_ns < end_ns; });
  return after != sampled_.end() && after->begin_ns <= begin_ns;
}

int64_t GpuUse::Device::BusyNs(Engine engine, int64_t begin_ns, int64_t end_ns) const {
  const std::vector<Sample>& samples = samples_[engine];
  auto at = std::partition_point(samples.begin(), samples.end(),
                                 [&](const Sample& sample) { return sample.end_ns <= begin_ns; });
  double busy_ns = 0;
  for (; at != samples.end() && at->begin_ns < end_ns; ++at)
    busy_ns += at->share * static_cast<double>(std::min(at->end_ns, end_ns) - std::max(at->begin_ns, begin_ns));
  return static_cast<int64_t>(busy_ns);
}

}  // namespace pitot::blame
