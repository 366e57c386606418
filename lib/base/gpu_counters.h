// SPDX-License-Identifier: Apache-2.0
//
// The counters of a GPU's state: the names and units that a collector writes and readers look for. They are the same
// for every vendor; a collector writes those that its driver has. docs/reference/counters.md says more.
#ifndef PITOT_LIB_BASE_GPU_COUNTERS_H_
#define PITOT_LIB_BASE_GPU_COUNTERS_H_

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

namespace pitot::base {

enum class GpuCounter : uint8_t {
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
  kSmActive,
  kSmOccupancy,
  kTensorActive,
  kDramBandwidth,
  kPcieSending,
  kPcieReceiving,
  kNvlinkSending,
  kNvlinkReceiving,
  kInstructions,
  kL2Bandwidth,
  kEngineActive,
  kSampled,
};
inline constexpr uint32_t kGpuCounterCount = static_cast<uint32_t>(GpuCounter::kSampled) + 1;

struct GpuCounterInfo {
  const char* name;
  const char* unit;
};

// In the order of GpuCounter. "Grows": since the collector started.
inline constexpr GpuCounterInfo kGpuCounters[] = {
    {"utilization", "%"},                       // share of the driver's last period with a kernel running
    {"memory utilization", "%"},                // likewise, with accesses to memory
    {"memory used", "bytes"},                   // of the device, by all processes
    {"memory total", "bytes"},                  //
    {"SM clock", "MHz"},                        // current
    {"memory clock", "MHz"},                    // current
    {"power", "W"},                             // current draw
    {"temperature", "C"},                       // of the GPU's die
    {"clock event reasons", ""},                // bit i: kClockReasons[i] holds the clocks
    {"time at the power cap", "ns"},            // grows, as the three below
    {"time in SW thermal slowdown", "ns"},      //
    {"time in HW thermal slowdown", "ns"},      //
    {"time in HW power brake slowdown", "ns"},  //
    {"PCIe sent", "bytes"},                     // grows
    {"PCIe received", "bytes"},                 // grows
    {"memory of this process", "bytes"},        // of the device
    {"memory of other processes", "bytes"},     // of the device; compute processes only
    {"other processes", ""},                    // how many
    {"ECC errors corrected", ""},               // since the driver was loaded
    {"ECC errors uncorrected", ""},             // likewise
    {"XID errors", ""},                         // grows
    {"last XID", ""},                           // code of the last error
    {"SM active", "%"},                         // of the SMs' time, since the last sample, as all below
    {"SM occupancy", "%"},                      // resident warps of the possible ones
    {"tensor cores active", "%"},               //
    {"DRAM bandwidth", "%"},                    // of the peak
    {"PCIe sending", "bytes/s"},                //
    {"PCIe receiving", "bytes/s"},              //
    {"NVLink sending", "bytes/s"},              //
    {"NVLink receiving", "bytes/s"},            //
    {"instructions issued", "%"},               // of the SMs' peak
    {"L2 bandwidth", "%"},                      // sectors, of the peak
    {"engine active", "%"},                     // of the time, work of any process on the device
    {"sampled", ""},                            // 1 while hardware counters of the device were read, otherwise 0
};
static_assert(std::size(kGpuCounters) == kGpuCounterCount);

constexpr const GpuCounterInfo& InfoOf(GpuCounter counter) { return kGpuCounters[static_cast<uint32_t>(counter)]; }
constexpr std::string_view NameOf(GpuCounter counter) { return InfoOf(counter).name; }

// Why clocks are lower than they could be. Throttling is a lack of power or cooling; the others are settings and a lack
// of work.
struct ClockReason {
  std::string_view name;
  bool is_throttling;
};
// By the bit of kClockEventReasons, lowest first.
inline constexpr ClockReason kClockReasons[] = {
    {"idle", false},       {"application clocks", false}, {"SW power cap", true},
    {"HW slowdown", true}, {"sync boost", false},         {"SW thermal", true},
    {"HW thermal", true},  {"HW power brake", true},      {"display clocks", false},
};
// False also for a reason without a name.
constexpr bool IsThrottling(std::string_view reason) {
  return std::any_of(std::begin(kClockReasons), std::end(kClockReasons),
                     [&](const ClockReason& known) { return known.is_throttling && known.name == reason; });
}
// Each reason that was active has a counter of 0 and 1: "clocks held by SW power cap".
inline constexpr std::string_view kClocksHeldBy = "clocks held by ";

// "GPU 0 (NVIDIA H100): SM clock"; `model` may be empty. The index is the driver's, not CUDA's.
inline std::string GpuCounterName(uint32_t index, std::string_view model, std::string_view counter) {
  std::string name = "GPU " + std::to_string(index);
  if (!model.empty()) name.append(" (").append(model).append(")");
  return name.append(": ").append(counter);
}
struct GpuCounterParts {
  std::string_view gpu;      // "GPU 0 (NVIDIA H100)"
  uint32_t index;            // 0
  std::string_view counter;  // "SM clock"
};
// The parts of a name as above; nothing for another name.
inline std::optional<GpuCounterParts> SplitGpuCounter(std::string_view name) {
  constexpr std::string_view kGpu = "GPU ";
  const size_t end = name.rfind(": ");
  if (end == std::string_view::npos || name.substr(0, kGpu.size()) != kGpu) return std::nullopt;
  uint32_t index = 0;
  if (std::from_chars(name.data() + kGpu.size(), name.data() + end, index).ec != std::errc()) return std::nullopt;
  return GpuCounterParts{name.substr(0, end), index, name.substr(end + 2)};
}

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_GPU_COUNTERS_H_
