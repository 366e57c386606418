// SPDX-License-Identifier: Apache-2.0
//
// The system's numbers on the process and the machine, and its missing sources.
#ifndef PITOT_LIB_COLLECT_HOST_SOURCES_H_
#define PITOT_LIB_COLLECT_HOST_SOURCES_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/host_counters.h"
#include "collect/host/cgroup.h"
#include "collect/host/file.h"

namespace pitot::host {

// Counters of the process and the machine, in the order of kHostCounters.
enum class Counter : uint8_t {
  kVoluntary,
  kInvoluntary,
  kMinorFaults,
  kMajorFaults,
  kThrottledTime,
  kThrottledPeriods,
  kStolenTime,
  kCpuPressure,
  kIoPressure,
  kIoPressureFull,
  kMemoryPressure,
  kMemoryPressureFull,
  kCpuFrequency,
  kLeastCpuFrequency,
  kResident,
  kRest,  // the collector's own
};
inline constexpr base::CounterName kHostCounters[] = {
    base::kVoluntary,     base::kInvoluntary,       base::kMinorFaults,    base::kMajorFaults,
    base::kThrottledTime, base::kThrottledPeriods,  base::kStolenTime,     base::kCpuPressure,
    base::kIoPressure,    base::kIoPressureFull,    base::kMemoryPressure, base::kMemoryPressureFull,
    base::kCpuFrequency,  base::kLeastCpuFrequency, base::kResident,       base::kRest,
};
inline constexpr uint32_t kHostCounterCount = sizeof kHostCounters / sizeof *kHostCounters;

// A source of numbers; it may be missing.
struct Source {
  std::string name;  // "CPU pressure"
  bool is_there = false;
  std::string said;  // where it is or why it is missing: "/proc/pressure/cpu", "no /proc/pressure/cpu: ..."
};

class Sources {
 public:
  // Opens the available files. `root` is a prefix of /proc and /sys. Throws when out of memory.
  explicit Sources(const std::string& root);

  // Calls take(counter, value) for each available counter; those of the CPUs only `with_cpus`, because their cost grows
  // with the number of CPUs. Cost: 11 us; frequencies up to 20 us for each of at most 16 CPUs, stolen time 9 us with 2
  // CPUs.
  template <class Take> void Read(bool with_cpus, Take take) {
    ReadProcess(take);
    if (quota_.is_there()) {
      const Quota::Throttled throttled = quota_.Read();
      take(Counter::kThrottledTime, static_cast<double>(throttled.ns));
      take(Counter::kThrottledPeriods, static_cast<double>(throttled.periods));
    }
    ReadPressures(take);
    if (const std::optional<double> bytes = ReadResident()) take(Counter::kResident, *bytes);
    double mean = 0, least = 0;
    if (!with_cpus) return;
    if (ReadFrequencies(&mean, &least)) {
      take(Counter::kCpuFrequency, mean);
      take(Counter::kLeastCpuFrequency, least);
    }
    if (const std::optional<double> stolen_ns = ReadStolen()) take(Counter::kStolenTime, *stolen_ns);
  }
  const std::vector<Source>& all() const { return all_; }
  // The machine's CPUs: stolen time is a sum over them. 0 if there is no stolen time, or their number is unknown.
  long cpus() const { return cpus_; }

 private:
  struct Pressure {
    File file;
    Counter some;
    bool has_full;  // the counter after `some` is there, too
  };
  struct ProcessUsage {
    double values[4];
  };
  static ProcessUsage ReadProcessUsage() noexcept;
  bool ReadFrequencies(double* mean, double* least) const noexcept;
  std::optional<double> ReadStolen() const noexcept;
  std::optional<double> ReadResident() const noexcept;

  template <class Take> void ReadProcess(Take take) const {
    const ProcessUsage usage = ReadProcessUsage();
    for (uint8_t i = 0; i < 4; ++i) take(static_cast<Counter>(i), usage.values[i]);
  }
  template <class Take> void ReadPressures(Take take) const {
    for (const Pressure& pressure : pressures_) {
      char text[256];
      const std::string_view said = pressure.file.Read(text);
      const size_t full = std::min(said.find("full "), said.size());
      const auto some_us = NumberAfter(said.substr(0, full), "total=");
      const auto full_us = NumberAfter(said.substr(full), "total=");
      if (some_us) take(pressure.some, static_cast<double>(*some_us) * 1e3);
      if (full_us && pressure.has_full)
        take(static_cast<Counter>(static_cast<uint8_t>(pressure.some) + 1), static_cast<double>(*full_us) * 1e3);
    }
  }

  Quota quota_;
  std::vector<Pressure> pressures_;
  std::vector<File> frequencies_;
  File stat_;    // /proc/stat
  File memory_;  // /proc/self/statm
  long cpus_ = 0;
  std::vector<Source> all_;
};

}  // namespace pitot::host

#endif  // PITOT_LIB_COLLECT_HOST_SOURCES_H_
