// SPDX-License-Identifier: Apache-2.0
#include "analyze/top/roof.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace pitot::top {
namespace {

using base::GpuCounter;
using facts::CounterMean;
using facts::Peaks;
using facts::Precision;
using model::Interval;
using model::kNone;
using model::StringId;
using model::Trace;

// The least bytes are known of operators with at least this share of the operations.
constexpr double kLeastKnown = 0.8;

}  // namespace

bool OperatorLoads::Add(uint32_t event, bool is_tf32, Load* load) {
  const std::vector<facts::TensorShape>& tensors = work_.Tensors(event);
  const double flops = work_.Flops(event);
  if (flops <= 0) return false;
  Precision precision = tensors.empty() ? Precision::kUnknown : facts::PrecisionOf(tensors.front().type);
  if (precision == Precision::kF32 && is_tf32) precision = Precision::kTf32;
  load->flops[static_cast<size_t>(precision)] += flops;
  const double bytes = facts::LeastBytes(trace_.strings[facts::EventNameId(trace_, event)], tensors, flops);
  load->bytes += bytes;
  if (bytes > 0) load->flops_with_bytes += flops;
  return true;
}

bool OperatorLoads::IsTf32(uint32_t gpu_row) {
  const auto [found, is_new] = is_tf32_.try_emplace(trace_.gpu.name[gpu_row]);
  if (is_new) found->second = facts::UsesTf32(trace_.strings[trace_.gpu.name[gpu_row]]);
  return found->second;
}

Roofs::Roofs(const Trace& trace, const TopOptions& options)
    : trace_(trace),
      peak_flop_per_s_(options.peak_flop_per_s),
      peak_bytes_per_s_(options.peak_bytes_per_s),
      counters_(trace, {GpuCounter::kTensorActive, GpuCounter::kDramBandwidth, GpuCounter::kSmActive}) {}

double Roofs::FlopPerSecond(uint32_t device, Precision precision) const {
  if (peak_flop_per_s_ > 0) return peak_flop_per_s_;
  const model::DeviceRow& row = trace_.devices[device];
  const Peaks peaks = facts::PeaksOf(trace_.strings[row.name], precision);
  const uint32_t multiprocessors = row.multiprocessors != 0 ? row.multiprocessors : peaks.multiprocessors;
  return peaks.flops_per_clock * multiprocessors * peaks.megahertz * 1e6;
}

double Roofs::SheetBytesPerSecond(uint32_t device) const {
  return facts::PeaksOf(trace_.strings[trace_.devices[device].name], Precision::kF16).bytes_per_ns * 1e9;
}
double Roofs::BytesPerSecond(uint32_t device) const {
  return peak_bytes_per_s_ > 0 ? peak_bytes_per_s_ : SheetBytesPerSecond(device);
}

std::vector<TopDevice> Roofs::Devices() const {
  std::vector<TopDevice> devices;
  for (uint32_t device = 0; device < trace_.devices.size(); ++device) {
    TopDevice one;
    one.name = trace_.strings[trace_.devices[device].name];
    one.is_given = peak_flop_per_s_ > 0 || peak_bytes_per_s_ > 0;
    one.bytes_per_s = BytesPerSecond(device);
    for (uint32_t i = 0; i < facts::kPrecisions; ++i) {
      const auto precision = static_cast<Precision>(i);
      if (const double peak = FlopPerSecond(device, precision); peak > 0)
        one.flop_per_s.emplace_back(facts::NameOf(precision), peak);
    }
    devices.push_back(std::move(one));
  }
  return devices;
}

namespace {

// The nearer roof, of the same work. Counters alone see no FP32 or other units: far below both roofs they tell nothing.
TopBound BoundOf(const TopRoof& roof, int64_t operators_ns) {
  constexpr double kLeastShare = 0.3;
  if (roof.compute_share < 0 || roof.memory_share < 0) return TopBound::kUnknown;
  double compute = roof.compute_share;
  if (roof.compute_from == TopEvidence::kOperators && roof.bytes_from == TopEvidence::kCounters && roof.gpu_ns > 0)
    compute *= std::min(1.0, static_cast<double>(operators_ns) / static_cast<double>(roof.gpu_ns));
  const bool is_by_counters = roof.compute_from == TopEvidence::kCounters;
  if (is_by_counters && std::max(compute, roof.memory_share) < kLeastShare) return TopBound::kUnknown;
  return roof.memory_share > compute ? TopBound::kMemory : TopBound::kCompute;
}

}  // namespace

// Work on other devices has its own peaks, and is left out.
model::Intervals Roofs::FindDevice(const Load& load, TopRoof* roof) {
  std::map<uint32_t, std::vector<Interval>> by_device;
  for (const Load::Work& work : load.work) by_device[work.device].push_back(work.time);
  model::Intervals times;
  for (auto& [device, intervals] : by_device) {
    model::Intervals of_device = model::Union(std::move(intervals));
    const int64_t ns = model::TotalNs(of_device);
    if (device == kNone || ns <= roof->gpu_ns) continue;
    roof->gpu_ns = ns;
    roof->device = device;
    times = std::move(of_device);
  }
  return times;
}

void Roofs::UseOperators(const Load& load, TopRoof* roof) const {
  double flops = 0;
  for (const double of_precision : load.flops) flops += of_precision;
  if (flops <= 0 || load.operators_ns <= 0) return;
  const double seconds = static_cast<double>(load.operators_ns) * 1e-9;
  roof->flop_per_s = flops / seconds;
  const auto most = std::max_element(load.flops.begin(), load.flops.end());
  roof->precision = facts::NameOf(static_cast<Precision>(most - load.flops.begin()));
  // Operations of several number types take their peak times one after the other.
  double peak_s = 0;
  for (uint32_t i = 0; i <= facts::kPrecisions; ++i) {
    if (load.flops[i] == 0) continue;
    const double peak = FlopPerSecond(roof->device, static_cast<Precision>(i));
    peak_s = peak > 0 && peak_s >= 0 ? peak_s + load.flops[i] / peak : -1;
  }
  if (peak_s > 0) {
    roof->peak_flop_per_s = flops / peak_s;
    roof->compute_share = peak_s / seconds;
    roof->compute_from = TopEvidence::kOperators;
  }
  if (load.flops_with_bytes < kLeastKnown * flops) return;
  roof->bytes_per_s = load.bytes / seconds;
  roof->bytes_from = TopEvidence::kOperators;
  const double peak_bytes = BytesPerSecond(roof->device);
  if (peak_bytes > 0) roof->memory_share = roof->bytes_per_s / peak_bytes;
}

void Roofs::UseCounters(const model::Intervals& times, TopRoof* roof) const {
  const std::optional<CounterMean> tensor = counters_.Of(roof->device, GpuCounter::kTensorActive, times),
                                   dram = counters_.Of(roof->device, GpuCounter::kDramBandwidth, times),
                                   sm = counters_.Of(roof->device, GpuCounter::kSmActive, times);
  if (tensor) roof->tensor_share = tensor->value * 0.01;
  if (sm) roof->sm_share = sm->value * 0.01;
  if (tensor && roof->compute_from == TopEvidence::kNone) {
    roof->compute_share = roof->tensor_share;
    roof->compute_from = TopEvidence::kCounters;
  }
  if (dram) {
    roof->samples = dram->samples;
    // A share of the hardware's peak, whatever peak it is compared with.
    const double sheet_bytes = SheetBytesPerSecond(roof->device), peak_bytes = BytesPerSecond(roof->device);
    const double all_bytes = sheet_bytes > 0 ? sheet_bytes : peak_bytes;
    roof->bytes_per_s = all_bytes > 0 ? dram->value * 0.01 * all_bytes : TopRoof::kUnknown;
    roof->memory_share = all_bytes > 0 ? roof->bytes_per_s / peak_bytes : dram->value * 0.01;
    roof->bytes_from = TopEvidence::kCounters;
  } else if (tensor) {
    roof->samples = tensor->samples;
  }
}

TopRoof Roofs::Of(const Load& load) const {
  TopRoof roof;
  const model::Intervals times = FindDevice(load, &roof);
  if (roof.device == kNone) return roof;
  roof.has_spans = load.has_spans;
  UseOperators(load, &roof);
  UseCounters(times, &roof);
  if (roof.flop_per_s >= 0 && roof.bytes_per_s > 0) roof.flop_per_byte = roof.flop_per_s / roof.bytes_per_s;
  roof.bound = BoundOf(roof, load.operators_ns);
  return roof;
}

}  // namespace pitot::top
