// SPDX-License-Identifier: Apache-2.0
//
// What counters of the host's evidence are called (collect/host): those who record them and those who read them agree
// here. All but frequencies grow from the beginning of the process, the thread or the machine on.
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

// Of a thread, as ThreadCounter(tid, ...). Samples of kRunQueueDelay and kVoluntary are taken together with one of
// kOnCpu; of kVoluntary by the thread itself, and of all that are at work when an incident is taken.
inline constexpr CounterName kOnCpu = {"on-CPU time", "ns"};
inline constexpr CounterName kRunQueueDelay = {"run-queue delay", "ns"};
inline constexpr CounterName kVoluntary = {"voluntary switches", ""};
inline constexpr CounterName kInvoluntary = {"involuntary switches", ""};
inline constexpr CounterName kMinorFaults = {"minor faults", ""};
inline constexpr CounterName kMajorFaults = {"major faults", ""};

// Of the process and of the machine, as HostCounter(...); the process's switches and faults by the names above.
inline constexpr CounterName kThrottledTime = {"throttled by the CPU quota", "ns"};
inline constexpr CounterName kThrottledPeriods = {"periods throttled by the CPU quota", ""};
inline constexpr CounterName kStolenTime = {"CPU time stolen by the hypervisor", "ns"};
inline constexpr const char* kCpusAttribute = "host.cpus";  // how many CPUs that is of, in decimal
inline constexpr CounterName kCpuPressure = {"CPU pressure (some)", "ns"};
inline constexpr CounterName kIoPressure = {"I/O pressure (some)", "ns"};
inline constexpr CounterName kIoPressureFull = {"I/O pressure (full)", "ns"};
inline constexpr CounterName kMemoryPressure = {"memory pressure (some)", "ns"};
inline constexpr CounterName kMemoryPressureFull = {"memory pressure (full)", "ns"};
inline constexpr CounterName kCpuFrequency = {"mean CPU frequency", "MHz"};
inline constexpr CounterName kLeastCpuFrequency = {"lowest CPU frequency", "MHz"};

// `tid` is the operating system's.
inline std::string ThreadCounter(int64_t tid, const CounterName& what) {
  return "thread " + std::to_string(tid) + ": " + what.name;
}
inline std::string HostCounter(const CounterName& what) { return std::string("host: ") + what.name; }

inline bool IsThreadCounter(std::string_view name) { return name.substr(0, 7) == "thread "; }
inline bool IsHostCounter(std::string_view name) { return IsThreadCounter(name) || name.substr(0, 6) == "host: "; }

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_HOST_COUNTERS_H_
