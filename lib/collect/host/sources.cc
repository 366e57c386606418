// SPDX-License-Identifier: Apache-2.0
#include "collect/host/sources.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace pitot::host {
namespace {

// A bound, because reading the clock of a busy CPU may interrupt it.
constexpr size_t kMostFrequencies = 16;

}  // namespace

Sources::Sources(const std::string& root)
    : quota_(root), stat_(root + "/proc/stat"), memory_(root + "/proc/self/statm") {
  char text[256];
  const std::string schedstat = "/proc/self/schedstat";
  const bool has_schedstat = !File(root + schedstat).Read(text).empty();
  all_.push_back({"run-queue delay", has_schedstat,
                  has_schedstat ? schedstat : "no " + schedstat + ": a kernel without CONFIG_SCHED_INFO"});
  quota_.Read();
  all_.push_back({"CPU quota", quota_.is_there(),
                  quota_.is_there() ? quota_.IsV2() ? "cpu.stat of cgroup v2" : "cpu.stat of cgroup v1"
                                    : "no cpu.stat with nr_throttled in the cgroup: no CPU controller is mounted"});
  const bool has_stolen = ReadStolen().has_value();
  all_.push_back({"stolen CPU time", has_stolen, has_stolen ? "/proc/stat" : "none in /proc/stat"});
  if (has_stolen) cpus_ = std::max(0L, sysconf(_SC_NPROCESSORS_ONLN));
  const struct {
    const char *name, *file;
    Counter some;
    bool has_full;
  } pressures[] = {
      {"CPU pressure", "cpu", Counter::kCpuPressure, false},
      {"I/O pressure", "io", Counter::kIoPressure, true},
      {"memory pressure", "memory", Counter::kMemoryPressure, true},
  };
  for (const auto& pressure : pressures) {
    const std::string path = std::string("/proc/pressure/") + pressure.file;
    File file(root + path);
    // Kernels started with psi=0 have the file, but refuse to read it.
    const bool is_there = !file.Read(text).empty();
    all_.push_back(
        {pressure.name, is_there, is_there ? path : "no " + path + ": a kernel before 4.20, or without PSI"});
    if (is_there) pressures_.push_back({std::move(file), pressure.some, pressure.has_full});
  }
  const std::string cpus = "/sys/devices/system/cpu/cpu";
  for (long cpu = 0, count = sysconf(_SC_NPROCESSORS_CONF); cpu < count && frequencies_.size() < kMostFrequencies;
       ++cpu) {
    File file(root + cpus + std::to_string(cpu) + "/cpufreq/scaling_cur_freq");
    if (!file.Read(text).empty()) frequencies_.push_back(std::move(file));
  }
  const bool has_frequencies = !frequencies_.empty();
  all_.push_back({"CPU frequency", has_frequencies,
                  has_frequencies ? "cpufreq of " + std::to_string(frequencies_.size()) + " CPUs"
                                  : "no cpufreq in " + cpus + "*: a virtual machine, or a driver without it"});
}

Sources::ProcessUsage Sources::ReadProcessUsage() noexcept {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return {{static_cast<double>(usage.ru_nvcsw), static_cast<double>(usage.ru_nivcsw),
           static_cast<double>(usage.ru_minflt), static_cast<double>(usage.ru_majflt)}};
}

bool Sources::ReadFrequencies(double* mean, double* least) const noexcept {
  double sum = 0, count = 0;
  for (const File& file : frequencies_) {
    char text[64];
    const double khz = static_cast<double>(NumberAfter(file.Read(text), "").value_or(0));
    if (khz == 0) continue;
    *least = count == 0 ? khz / 1e3 : std::min(*least, khz / 1e3);
    sum += khz / 1e3;
    ++count;
  }
  *mean = count != 0 ? sum / count : 0;
  return count != 0;
}

// Reads proc(5): "cpu  USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL ...", the sum of all CPUs, in ticks.
std::optional<double> Sources::ReadStolen() const noexcept {
  char text[256];
  std::string_view said = stat_.Read(text);
  std::string_view line = TakeUntil(&said, '\n');
  if (TakeUntil(&line, ' ') != "cpu") return std::nullopt;
  for (int skipped = 0; skipped < 8; ++skipped) TakeUntil(&line, ' ');
  const auto ticks = NumberAfter(line, "");
  const long per_second = sysconf(_SC_CLK_TCK);
  if (!ticks || per_second <= 0) return std::nullopt;
  return static_cast<double>(*ticks) * 1e9 / static_cast<double>(per_second);
}

// Reads proc(5): "SIZE RESIDENT ...", in pages.
std::optional<double> Sources::ReadResident() const noexcept {
  char text[128];
  std::string_view said = memory_.Read(text);
  TakeUntil(&said, ' ');
  const auto pages = NumberAfter(said, "");
  if (!pages) return std::nullopt;
  return static_cast<double>(*pages) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace pitot::host
