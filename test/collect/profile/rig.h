// SPDX-License-Identifier: Apache-2.0
//
// Profiles over a fake CUPTI and a fake driver, and a server of kernels.
#ifndef PITOT_TEST_COLLECT_PROFILE_RIG_H_
#define PITOT_TEST_COLLECT_PROFILE_RIG_H_

#include <dlfcn.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "collect/profile/fake_range.h"
#include "collect/profile/measure.h"
#include "trace/launch_hook.h"
#include "trace/process.h"

namespace fakes {

// What a handle of a function points to.
struct FakeKernel {
  const char* name;
  int registers = 168, shared_bytes = 0;
  std::atomic<uint64_t> runs{0};
};

// The state behind the driver's functions.
struct FakeCuda {
  std::atomic<int> retained{0}, pushed{0};
  std::atomic<bool> is_capturing{false}, is_elsewhere{false}, has_context{true};
  std::atomic<bool> has_names{true};  // cuFuncGetName knows the handles
  int blocks_of_sm = 6;

  void Reset() {
    retained = pushed = 0;
    is_capturing = is_elsewhere = false;
    has_context = has_names = true;
    blocks_of_sm = 6;
  }
};
inline FakeCuda g_cuda;
inline char g_context[1];

inline pitot::profile::Driver FakeDriver() {
  pitot::profile::Driver driver{};
  driver.get_version = [](int* version) { return *version = 13000, 0; };
  driver.get_device = [](int* device, int ordinal) { return *device = ordinal, ordinal == 0 ? 0 : 101; };
  // An H100's.
  driver.device_attribute = [](int* value, int attribute, int) {
    switch (attribute) {
      case 10:
        *value = 32;
        break;
      case 16:
        *value = 132;
        break;
      case 39:
        *value = 2048;
        break;
      case 81:
        *value = 233'472;
        break;
      case 82:
        *value = 65'536;
        break;
      case 106:
        *value = 32;
        break;
      case 111:
        *value = 1024;
        break;
      default:
        return 1;
    }
    return 0;
  };
  driver.primary_state = [](int, unsigned int*, int* is_active) { return *is_active = g_cuda.has_context, 0; };
  driver.primary_retain = [](void** context, int) { return ++g_cuda.retained, *context = g_context, 0; };
  driver.primary_release = [](int) { return --g_cuda.retained, 0; };
  driver.push = [](void*) { return ++g_cuda.pushed, 0; };
  driver.pop = [](void**) { return --g_cuda.pushed, 0; };
  driver.get_current = [](void** context) {
    *context = g_cuda.is_elsewhere ? nullptr : g_context;
    return 0;
  };
  driver.is_capturing = [](void*, int* status) { return *status = g_cuda.is_capturing ? 1 : 0, 0; };
  driver.function_name = [](const char** name, void* function) {
    if (!g_cuda.has_names) return 400;
    *name = static_cast<FakeKernel*>(function)->name;
    return 0;
  };
  driver.function_attribute = [](int* value, int attribute, void* function) {
    const FakeKernel& kernel = *static_cast<FakeKernel*>(function);
    *value = attribute == 4 ? kernel.registers : kernel.shared_bytes;
    return 0;
  };
  driver.most_blocks = [](int* blocks, void*, int, size_t) { return *blocks = g_cuda.blocks_of_sm, 0; };
  driver.kernel_name = [](const char** name, void* kernel) {
    *name = static_cast<FakeKernel*>(kernel)->name;
    return g_cuda.has_names ? 0 : 400;
  };
  driver.kernel_function = [](void** function, void* kernel) { return *function = kernel, 0; };
  driver.symbol_function = [](void*, void** function, const void* symbol) {
    *function = const_cast<void*>(symbol);
    return 0;
  };
  return driver;
}

// Launches as the wrappers of collect/cuda_calls do. `body` runs in place of CUDA's function.
template <class Body> void LaunchWith(const void* kernel, uint32_t grid, Body body,
                                      pitot::trace::KernelHandle handle = pitot::trace::KernelHandle::kFunction) {
  const pitot::trace::LaunchHook* const hook = pitot::trace::g_launch_hook.load();
  pitot::trace::Launch launch;
  launch.kernel = kernel;
  launch.handle = handle;
  launch.grid[0] = grid, launch.grid[1] = launch.grid[2] = 1;
  launch.block[0] = 64, launch.block[1] = launch.block[2] = 1;
  if (hook != nullptr) hook->before(&launch);
  body();
  if (hook != nullptr) hook->after(&launch, 0);
}

class Rig {
 public:
  Rig() {
    static void* const library = dlopen(PITOT_TEST_FAKE_RANGE, RTLD_NOW | RTLD_LOCAL);
    INFO((library == nullptr ? dlerror() : ""));
    REQUIRE(library != nullptr);
    fake = reinterpret_cast<FakeRange* (*)()>(dlsym(library, "fake_range"))();
    fake->Reset();
    g_cuda.Reset();
    pitot::trace::WatchForks();
    options.library = PITOT_TEST_FAKE_RANGE;
    options.kernel = "Attention";
    environment.driver = FakeDriver();
    // Each of the server's rounds.
    round = [this] { Launch(&attention), Launch(&other); };
  }
  ~Rig() { EndServer(); }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  void Launch(FakeKernel* kernel, uint32_t grid = 128) {
    LaunchWith(kernel, grid, [&] { kernel->runs += fake->Launch(kernel); });
  }
  void StartServer() {
    server_ = std::thread([this] {
      while (!is_done_) {
        round();
        std::this_thread::yield();
      }
    });
  }
  void EndServer() {
    is_done_ = true;
    if (server_.joinable()) server_.join();
    is_done_ = false;
  }
  // Profiles while the server runs.
  pitot::Status Profile() {
    profile = {};
    StartServer();
    const pitot::Status status = pitot::profile::Measure(options, environment, &profile);
    EndServer();
    return status;
  }
  // Nothing is left of a profile.
  bool IsClean() {
    const std::lock_guard lock(fake->mutex);
    return fake->enabled == 0 && fake->hosts == 0 && !fake->is_started && g_cuda.retained == 0 && g_cuda.pushed == 0 &&
           pitot::trace::g_launch_hook.load() == nullptr;
  }
  template <class Value> Value Seen(Value FakeRange::*member) {
    const std::lock_guard lock(fake->mutex);
    return fake->*member;
  }

  FakeRange* fake = nullptr;
  FakeKernel attention{"_Z14FusedAttentionPKfi"}, other{"_Z4CopyPKfi"};
  pitot::ProfileOptions options;
  pitot::profile::Environment environment;
  pitot::Profile profile;
  std::function<void()> round;

 private:
  std::thread server_;
  std::atomic<bool> is_done_{false};
};

}  // namespace fakes

#endif  // PITOT_TEST_COLLECT_PROFILE_RIG_H_
