// SPDX-License-Identifier: Apache-2.0
#include "server_common/launches.h"

#include <dlfcn.h>

#include <cstddef>

#include "server_common/monotonic.h"

namespace server_common {
namespace {

constexpr int kNoRuntime = 3;  // cudaErrorInitializationError
thread_local uint64_t launched_ns = 0;

template <typename Call, typename... Arguments> int Timed(Call call, Arguments... arguments) {
  if (call == nullptr) return kNoRuntime;
  const uint64_t begin_ns = MonotonicNs();
  const int status = call(arguments...);
  launched_ns += MonotonicNs() - begin_ns;
  return status;
}

}  // namespace

uint64_t LaunchedNs() { return launched_ns; }

// As dim3, of which CUDA's headers are not needed.
struct Blocks {
  unsigned x, y, z;
};

// By the names that LibTorch looks for; the runtime's own are behind them.
#define EXPORTED_AS(name) __asm__(name) __attribute__((visibility("default")))
using Launch = int (*)(const void*, Blocks, Blocks, void**, size_t, void*);
using LaunchWith = int (*)(const void*, const void*, void**);

int LaunchKernel(const void* kernel, Blocks grid, Blocks block, void** arguments, size_t shared_bytes, void* stream)
    EXPORTED_AS("__cudaLaunchKernel");
int LaunchKernel(const void* kernel, Blocks grid, Blocks block, void** arguments, size_t shared_bytes, void* stream) {
  static const auto launch = reinterpret_cast<Launch>(dlsym(RTLD_NEXT, "__cudaLaunchKernel"));
  return Timed(launch, kernel, grid, block, arguments, shared_bytes, stream);
}

int LaunchKernelWith(const void* config, const void* kernel, void** arguments) EXPORTED_AS("cudaLaunchKernelExC");
int LaunchKernelWith(const void* config, const void* kernel, void** arguments) {
  static const auto launch = reinterpret_cast<LaunchWith>(dlsym(RTLD_NEXT, "cudaLaunchKernelExC"));
  return Timed(launch, config, kernel, arguments);
}

}  // namespace server_common
