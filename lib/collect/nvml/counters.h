// SPDX-License-Identifier: Apache-2.0
//
// The counters of each GPU, and the calls they come from.
#ifndef PITOT_LIB_COLLECT_NVML_COUNTERS_H_
#define PITOT_LIB_COLLECT_NVML_COUNTERS_H_

#include <stdint.h>

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

enum class Counter : uint8_t {
  kUtilization,
  kMemoryUtilization,
  kMemoryUsed,
  kMemoryTotal,
  kSmClock,
  kMemoryClock,
  kPower,
  kTemperature,
  kClockEventReasons,
  kPowerCapTime,
  kSoftwareThermalTime,
  kHardwareThermalTime,
  kPowerBrakeTime,
  kPcieSent,
  kPcieReceived,
  kOwnMemory,
  kOtherMemory,
  kOtherProcesses,
  kEccCorrected,
  kEccUncorrected,
  kXidErrors,
  kLastXid,
  kGpmSmActive,
  kGpmSmOccupancy,
  kGpmTensorActive,
  kGpmDramBandwidth,
  kGpmPcieSent,
  kGpmPcieReceived,
  kGpmNvlinkSent,
  kGpmNvlinkReceived,
};
inline constexpr uint32_t kCounterCount = static_cast<uint32_t>(Counter::kGpmNvlinkReceived) + 1;

struct CounterInfo {
  const char* name;
  const char* unit;
};

// Names and units, in the order of Counter.
inline constexpr CounterInfo kCounters[] = {
    {"utilization", "%"},
    {"memory utilization", "%"},
    {"memory used", "bytes"},
    {"memory total", "bytes"},
    {"SM clock", "MHz"},
    {"memory clock", "MHz"},
    {"power", "W"},
    {"temperature", "C"},
    {"clock event reasons", ""},
    {"time at the power cap", "ns"},
    {"time in SW thermal slowdown", "ns"},
    {"time in HW thermal slowdown", "ns"},
    {"time in HW power brake slowdown", "ns"},
    {"PCIe sent", "bytes"},
    {"PCIe received", "bytes"},
    {"memory of this process", "bytes"},
    {"memory of other processes", "bytes"},
    {"other processes", ""},
    {"ECC errors corrected", ""},
    {"ECC errors uncorrected", ""},
    {"XID errors", ""},
    {"last XID", ""},
    {"SM active", "%"},
    {"SM occupancy", "%"},
    {"tensor cores active", "%"},
    {"DRAM bandwidth", "%"},
    {"PCIe sending", "bytes/s"},
    {"PCIe receiving", "bytes/s"},
    {"NVLink sending", "bytes/s"},
    {"NVLink receiving", "bytes/s"},
};
static_assert(sizeof kCounters / sizeof *kCounters == kCounterCount);

// Names of the bits of "clock event reasons", lowest first.
inline constexpr const char* kClockEventNames[] = {"idle",        "application clocks", "SW power cap",
                                                   "HW slowdown", "sync boost",         "SW thermal",
                                                   "HW thermal",  "HW power brake",     "display clocks"};

}  // namespace pitot::nvml

#endif  // PITOT_LIB_COLLECT_NVML_COUNTERS_H_
