// SPDX-License-Identifier: Apache-2.0
//
// A host collector over files written by a test, a clock that goes from round to round, and threads with CPU times and
// usage set by the test.
#ifndef PITOT_TEST_COLLECT_HOST_RIG_H_
#define PITOT_TEST_COLLECT_HOST_RIG_H_

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "collect/host/collector.h"
#include "collect/nvml/counter_trace.h"
#include "fakes/step_timer.h"
#include "fakes/temp_directory.h"

namespace fakes {

// A machine's /proc and /sys.
class Machine {
 public:
  // Overwrites a file in place, so that an open descriptor sees the new text.
  void Write(const std::string& path, const std::string& text) {
    const std::string whole = root() + path;
    std::filesystem::create_directories(std::filesystem::path(whole).parent_path());
    std::ofstream(whole) << text;
  }
  void WriteSchedstat(int64_t tid, int64_t cpu_ns, int64_t delay_ns) {
    Write("/proc/self/task/" + std::to_string(tid) + "/schedstat",
          std::to_string(cpu_ns) + " " + std::to_string(delay_ns) + " 7\n");
  }
  const std::string& root() const { return directory_.path(); }

 private:
  TempDirectory directory_;
};

class HostRig {
 public:
  HostRig() {
    environment.root = machine.root();
    environment.timer = timer;
    environment.read_cpu = [](int64_t) noexcept -> int64_t { return cpu_ns; };
    environment.read_usage = nullptr;
    cpu_ns = 0;
  }
  ~HostRig() {
    if (collector != nullptr) collector->Stop();
  }
  HostRig(const HostRig&) = delete;
  HostRig& operator=(const HostRig&) = delete;

  pitot::Status Start() {
    collector = pitot::host::MakeCollector(options, environment);
    return collector->Start();
  }
  // The values of its rounds; for an incident also the present ones.
  Trace Ask(int64_t begin_ns, pitot::KeepFor what = pitot::KeepFor::kSample) {
    collector->Keep(begin_ns, what);
    Trace trace;
    collector->AddTo(trace);
    return trace;
  }

  static inline std::atomic<int64_t> cpu_ns{0};  // of each thread; negative: there is none
  Machine machine;
  std::shared_ptr<StepTimer> timer = std::make_shared<StepTimer>();
  pitot::HostOptions options;
  pitot::host::Environment environment;
  std::unique_ptr<pitot::Collector> collector;
};

}  // namespace fakes

#endif  // PITOT_TEST_COLLECT_HOST_RIG_H_
