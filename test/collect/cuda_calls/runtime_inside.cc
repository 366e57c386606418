// SPDX-License-Identifier: Apache-2.0
//
// Imports nothing of CUDA and looks up the driver's functions, like a library with CUDA's runtime inside.
#include <dlfcn.h>

#include "collect/cuda_calls/fake_driver.h"

namespace {

using Launch = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                       void**);

int (*g_synchronize)(void*) = nullptr;
int (*g_synchronize_context)(void*) = nullptr;
Launch g_launch = nullptr;

template <class Function> void Ask(void* get, const char* name, Function* function) {
  void* found = nullptr;
  reinterpret_cast<int (*)(const char*, void**, int, uint64_t, void*)>(get)(name, &found, 13000, 0, nullptr);
  *function = reinterpret_cast<Function>(found);
}

}  // namespace

extern "C" {

// What a runtime does within a launch: here it also waits, for 2 ms.
[[gnu::visibility("default")]] int LaunchThroughDriver() {
  g_launch(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  return g_synchronize(fakes::kWaitsFor2Ms);
}
[[gnu::visibility("default")]] fakes::RuntimeInside CudaRuntimeInside() {
  return {[](void* handle, const char* name) { return dlsym(handle, name); },
          [](const char* name) {
            void* const found = dlsym(RTLD_NEXT, name);
            asm volatile("");  // not a jump: the answer depends on the caller
            return found;
          },
          [](void* driver) {
            void* const get = dlsym(driver, "cuGetProcAddress_v2");
            Ask(get, "cuStreamSynchronize", &g_synchronize);
            Ask(get, "cuCtxSynchronize", &g_synchronize_context);
            Ask(get, "cuLaunchKernel", &g_launch);
          },
          [](void* stream) { return g_synchronize(stream); },
          [](void* context) { return g_synchronize_context(context); },
          [](void* stream) { return g_launch(nullptr, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr); }};
}
}
