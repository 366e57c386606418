// SPDX-License-Identifier: Apache-2.0
//
// A collector over the fake NVML and a clock that goes from round to round.
#ifndef PITOT_TEST_COLLECT_NVML_RIG_H_
#define PITOT_TEST_COLLECT_NVML_RIG_H_

#include <dirent.h>
#include <dlfcn.h>

#include <condition_variable>
#include <cstdint>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>

#include "collect/nvml/collector.h"
#include "collect/nvml/counter_trace.h"
#include "collect/nvml/fake_nvml.h"
#include "fakes/wait_until.h"
#include "pitot/collect/nvml.h"

namespace fakes {

inline constexpr int64_t kMs = 1'000'000, kSecond = 1'000'000'000;

// Stands still but for Pass, which lets the thread that waits on it do what is due.
class StepTimer final : public nvml::Timer {
 public:
  int64_t NowNs() noexcept override {
    const std::lock_guard lock(mutex_);
    return now_ns_;
  }
  void WaitUntil(int64_t at_ns) noexcept override {
    std::unique_lock lock(mutex_);
    due_ns_ = at_ns;
    changed_.wait(lock, [&] { return is_awake_ || now_ns_ >= at_ns; });
    due_ns_ = 0;
  }
  void Wake() noexcept override {
    const std::lock_guard lock(mutex_);
    is_awake_ = true;
    changed_.notify_all();
  }

  // The clock alone, whatever the thread does.
  void Set(int64_t now_ns) {
    const std::lock_guard lock(mutex_);
    now_ns_ = now_ns;
    changed_.notify_all();
  }
  // True when the thread waits for a time that has not come.
  bool IsIdle() {
    const std::lock_guard lock(mutex_);
    return due_ns_ > now_ns_;
  }
  bool AwaitIdle() {
    return WaitUntilTrue([this] { return IsIdle(); });
  }
  // The clock goes on for `ns`, by way of all that is due until then.
  bool Pass(int64_t ns) {
    if (!AwaitIdle()) return false;
    const int64_t end_ns = NowNs() + ns;
    for (;;) {
      int64_t due_ns = 0;
      {
        const std::lock_guard lock(mutex_);
        due_ns = due_ns_;
      }
      if (due_ns > end_ns) break;
      Set(due_ns);
      if (!AwaitIdle()) return false;
    }
    Set(end_ns);
    return true;
  }

 private:
  template <class Condition> static bool WaitUntilTrue(Condition condition) { return fakes::WaitUntil(condition); }

  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t now_ns_ = 1000 * kSecond;
  int64_t due_ns_ = 0;  // 0: the thread does not wait
  bool is_awake_ = false;
};

// How many threads of this process are the collector's.
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

// With the script as it is when loaded. Nothing is started.
class Rig {
 public:
  explicit Rig(const char* library = PITOT_TEST_FAKE_NVML) : fake(Open(library)) {
    options.library = library;
    environment.timer = timer;
    environment.own.pid = kOwnPid;
    fake->Reset();
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
    collector->Keep(begin_ns);
    Trace trace;
    collector->AddTo(trace);
    return trace;
  }
  // Of the last seconds.
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
