// SPDX-License-Identifier: Apache-2.0
//
// The questions to the driver that the counters of each GPU come from.
#ifndef PITOT_LIB_COLLECT_NVML_COUNTERS_H_
#define PITOT_LIB_COLLECT_NVML_COUNTERS_H_

#include <stdint.h>

#include "base/gpu_counters.h"

namespace pitot::nvml {

// A question to the driver; each may fail by itself.
enum class Source : uint8_t {
  kUtilization,
  kMemory,
  kSmClock,
  kMemoryClock,
  kPower,
  kTemperature,
  kClockEventReasons,
  kPowerCapTime,  // from here to kPcieReceived: fields
  kSoftwareThermalTime,
  kHardwareThermalTime,
  kPowerBrakeTime,
  kPcieSent,
  kPcieReceived,
  kProcesses,
  kEccCorrected,
  kEccUncorrected,
  kXid,
  kGpm,
  kGpmSmActive,  // from here on: metrics of GPM
  kGpmSmOccupancy,
  kGpmTensorActive,
  kGpmDramBandwidth,
  kGpmPcieSent,
  kGpmPcieReceived,
  kGpmNvlinkSent,
  kGpmNvlinkReceived,
};
inline constexpr uint32_t kSourceCount = static_cast<uint32_t>(Source::kGpmNvlinkReceived) + 1;

// Names of sources in attributes, in the order of Source.
inline constexpr const char* kSourceNames[] = {
    "utilization",
    "memory",
    "sm_clock",
    "memory_clock",
    "power",
    "temperature",
    "clock_event_reasons",
    "power_cap_time",
    "sw_thermal_time",
    "hw_thermal_time",
    "power_brake_time",
    "pcie_sent",
    "pcie_received",
    "process_memory",
    "ecc_corrected",
    "ecc_uncorrected",
    "xid",
    "gpm",
    "gpm_sm_active",
    "gpm_sm_occupancy",
    "gpm_tensor_active",
    "gpm_dram_bandwidth",
    "gpm_pcie_sent",
    "gpm_pcie_received",
    "gpm_nvlink_sent",
    "gpm_nvlink_received",
};
static_assert(sizeof kSourceNames / sizeof *kSourceNames == kSourceCount);

using Counter = base::GpuCounter;
inline constexpr uint32_t kCounterCount = base::kGpuCounterCount;

}  // namespace pitot::nvml

#endif  // PITOT_LIB_COLLECT_NVML_COUNTERS_H_
