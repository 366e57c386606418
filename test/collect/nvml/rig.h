// SPDX-License-Identifier: Apache-2.0
//
// A collector over the fake NVML and a clock that goes from round to round.
#ifndef PITOT_TEST_COLLECT_NVML_RIG_H_
#define PITOT_TEST_COLLECT_NVML_RIG_H_

#include <dirent.h>
#include <dlfcn.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>

#include "collect/nvml/collector.h"
#include "collect/nvml/counter_trace.h"
#include "collect/nvml/fake_nvml.h"
#include "fakes/step_timer.h"
#include "pitot/collect/nvml.h"

namespace fakes {

// Number of the collector's threads in this process.
inline int CountSamplingThreads() {
  int count = 0;
  DIR* const tasks = opendir("/proc/self/task");
  while (const dirent* entry = readdir(tasks)) {
    std::string name;
    std::ifstream(std::string("/proc/self/task/") + entry->d_name + "/comm") >> name;
    count += name == "pitot-nvml";
  }
  closedir(tasks);
  return count;
}

inline constexpr unsigned int kOwnPid = 4711;

// The script is as after loading. Nothing is started.
class Rig {
 public:
  explicit Rig(const char* library = PITOT_TEST_FAKE_NVML) : fake(Open(library)) {
    options.library = library;
    environment.timer = timer;
    environment.own.pid = kOwnPid;
    fake->Reset();
    fake->pass = [timer = timer](int64_t ns) { timer->Set(timer->NowNs() + ns); };
  }
  ~Rig() {
    if (collector != nullptr) collector->Stop();
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  pitot::Status Start() {
    collector = nvml::MakeCollector(options, environment);
    return collector->Start();
  }
  // Changes the script.
  template <class Work> void Script(Work work) {
    const std::lock_guard lock(fake->mutex);
    work(*fake);
    fake->changed.notify_all();
  }
  template <class Value> Value Seen(Value FakeNvml::*member) {
    const std::lock_guard lock(fake->mutex);
    return fake->*member;
  }
  uint64_t CallsOf(const std::string& function) {
    const std::lock_guard lock(fake->mutex);
    return fake->calls_of[function];
  }
  Trace Ask(int64_t begin_ns) {
    collector->Keep(begin_ns, pitot::KeepFor::kIncident);
    Trace trace;
    collector->AddTo(trace);
    return trace;
  }
  // The trace of the last `ns`.
  Trace AskBack(int64_t ns) { return Ask(timer->NowNs() - ns); }

  std::shared_ptr<StepTimer> timer = std::make_shared<StepTimer>();
  FakeNvml* const fake;
  pitot::NvmlOptions options;
  nvml::Environment environment;
  std::unique_ptr<pitot::Collector> collector;

 private:
  static FakeNvml* Open(const char* library) {
    void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<FakeNvml* (*)()>(dlsym(handle, "fake_nvml"))();
  }
};

}  // namespace fakes

#endif  // PITOT_TEST_COLLECT_NVML_RIG_H_
