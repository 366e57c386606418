// SPDX-License-Identifier: Apache-2.0
//
// Names of the host's counters (collect/host), shared by the code for recording and for reading them. All
// except frequencies, memory and rests grow from the begin of the process, the thread or the machine.
#ifndef PITOT_LIB_BASE_HOST_COUNTERS_H_
#define PITOT_LIB_BASE_HOST_COUNTERS_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace pitot::base {

struct CounterName {
  const char* name;
  const char* unit;
};

// Counters of a thread, as ThreadCounter(tid, ...). Samples of kRunQueueDelay and kVoluntary are taken together with
// one of kOnCpu. The thread itself samples kVoluntary; when an incident is taken, all threads at work are sampled.
inline constexpr CounterName kOnCpu = {"on-CPU time", "ns"};
inline constexpr CounterName kRunQueueDelay = {"run-queue delay", "ns"};
inline constexpr CounterName kVoluntary = {"voluntary switches", ""};
inline constexpr CounterName kInvoluntary = {"involuntary switches", ""};
inline constexpr CounterName kMinorFaults = {"minor faults", ""};
inline constexpr CounterName kMajorFaults = {"major faults", ""};

// Counters of the process and of the machine, as HostCounter(...). The process's switches and faults use the names
// above.
inline constexpr CounterName kThrottledTime = {"throttled by the CPU quota", "ns"};
inline constexpr CounterName kThrottledPeriods = {"periods throttled by the CPU quota", ""};
inline constexpr CounterName kStolenTime = {"CPU time stolen by the hypervisor", "ns"};
inline constexpr const char* kCpusAttribute = "host.cpus";  // the number of CPUs behind it, in decimal
inline constexpr CounterName kCpuPressure = {"CPU pressure (some)", "ns"};
inline constexpr CounterName kIoPressure = {"I/O pressure (some)", "ns"};
inline constexpr CounterName kIoPressureFull = {"I/O pressure (full)", "ns"};
inline constexpr CounterName kMemoryPressure = {"memory pressure (some)", "ns"};
inline constexpr CounterName kMemoryPressureFull = {"memory pressure (full)", "ns"};
inline constexpr CounterName kCpuFrequency = {"mean CPU frequency", "MHz"};
inline constexpr CounterName kLeastCpuFrequency = {"lowest CPU frequency", "MHz"};
inline constexpr CounterName kResident = {"resident memory", "bytes"};
// For how long the collector now rests between two looks, because the process has nothing to do; 0: it does not rest.
inline constexpr CounterName kRest = {"length of a rest", "ns"};

// `tid` is the operating system's.
inline std::string ThreadCounter(int64_t tid, const CounterName& what) {
  return "thread " + std::to_string(tid) + ": " + what.name;
}
inline std::string HostCounter(const CounterName& what) { return std::string("host: ") + what.name; }

inline bool IsThreadCounter(std::string_view name) { return name.substr(0, 7) == "thread "; }
inline bool IsHostCounter(std::string_view name) { return IsThreadCounter(name) || name.substr(0, 6) == "host: "; }

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_HOST_COUNTERS_H_
