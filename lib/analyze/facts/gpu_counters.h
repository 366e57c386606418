// SPDX-License-Identifier: Apache-2.0
//
// The counters of each GPU's state (base/gpu_counters.h).
#ifndef PITOT_LIB_ANALYZE_FACTS_GPU_COUNTERS_H_
#define PITOT_LIB_ANALYZE_FACTS_GPU_COUNTERS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include "base/gpu_counters.h"
#include "model/parts.h"
#include "pitot/model/trace.h"

namespace pitot::facts {

// The row of a hardware counter of a device of the trace; kNone if it has none. O(counters).
inline uint32_t CounterOf(const model::Trace& trace, uint32_t device, base::GpuCounter counter) {
  for (uint32_t row = 0; row < trace.counters.size(); ++row) {
    if (trace.counters[row].device == device && trace.strings[trace.counters[row].name] == base::NameOf(counter))
      return row;
  }
  return model::kNone;
}

struct GpuCounters {
  std::string_view name;                          // "GPU 0 (NVIDIA H100)"
  std::map<std::string_view, uint32_t> counters;  // rows, by "SM clock"
  uint32_t Find(base::GpuCounter counter) const {
    const auto found = counters.find(base::NameOf(counter));
    return found == counters.end() ? model::kNone : found->second;
  }
};

// The part of a joined trace (kNone: none, or the machine's) and NVML's index.
using GpuKey = std::pair<uint32_t, uint32_t>;

// The counters of each GPU. O(counters).
inline std::map<GpuKey, GpuCounters> GpuCountersOf(const model::Trace& trace) {
  std::map<GpuKey, GpuCounters> gpus;
  for (const model::GpuStateCounter& one : model::GpuStateCounters(trace)) {
    GpuCounters& gpu = gpus[{one.part, one.index}];
    gpu.name = one.gpu;
    gpu.counters.emplace(one.counter, one.row);
  }
  return gpus;
}

// The device of an NVML GPU; kNone if unknown. NVML's index is CUDA's only if the process sees all devices in that
// order. One on each side is the same GPU; otherwise both sides must have equally many, with the same names. A part's
// devices are numbered anew, so only its sole one is known.
inline uint32_t DeviceOf(const model::Trace& trace, const std::map<GpuKey, GpuCounters>& gpus, GpuKey of) {
  const auto [part, index] = of;
  if (part != model::kNone) {
    const auto is_of_part = [part = part](const auto& gpu) { return gpu.first.first == part; };
    if (std::count_if(gpus.begin(), gpus.end(), is_of_part) != 1) return model::kNone;
    const model::Parts parts(trace);
    uint32_t sole = model::kNone, count = 0;
    for (uint32_t device = 0; device < trace.devices.size(); ++device) {
      if (parts.Split(trace.strings[trace.devices[device].name]).part == part) sole = device, ++count;
    }
    return count == 1 ? sole : model::kNone;
  }
  if (trace.devices.size() != gpus.size()) return model::kNone;
  if (gpus.size() == 1) return 0;
  for (uint32_t device = 0; device < trace.devices.size(); ++device) {
    const std::string_view name = trace.strings[trace.devices[device].name];
    if (trace.devices[device].ordinal == index && gpus.at(of).name.find(name) != std::string_view::npos) return device;
  }
  return model::kNone;
}

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_GPU_COUNTERS_H_
