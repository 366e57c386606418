// SPDX-License-Identifier: Apache-2.0
#include "scoreboard/launches.h"

#include <dlfcn.h>

#include <cstddef>

#include "scoreboard/clocks.h"

namespace scoreboard {
namespace {

constexpr int kNoRuntime = 3;  // cudaErrorInitializationError; an error of cuDNN's, too
thread_local LaunchTime launched;
thread_local int depth = 0;  // one may be made of another

template <typename Call, typename... Arguments> int Timed(Call call, Arguments... arguments) {
  if (call == nullptr) return kNoRuntime;
  if (depth != 0) return call(arguments...);
  const uint64_t begin_cpu_ns = ThreadCpuNs(), begin_ns = MonotonicNs();
  ++depth;
  const int status = call(arguments...);
  --depth;
  launched.ns += MonotonicNs() - begin_ns;
  launched.cpu_ns += ThreadCpuNs() - begin_cpu_ns;
  return status;
}

}  // namespace

LaunchTime Launched() { return launched; }

// As dim3 of CUDA's headers, which are not needed.
struct Blocks {
  unsigned x, y, z;
};

// By the names of LibTorch's calls. Each calls the runtime's own.
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

// cuDNN's: it has a runtime of its own, and launches convolutions in these.
using Execute = int (*)(void*, void*, void*);
using Convolve = int (*)(void*, const void*, const void*, const void*, const void*, const void*, const void*, int,
                         void*, size_t, const void*, const void*, void*);

int ExecutePlan(void* handle, void* plan, void* arguments) EXPORTED_AS("cudnnBackendExecute");
int ExecutePlan(void* handle, void* plan, void* arguments) {
  static const auto execute = reinterpret_cast<Execute>(dlsym(RTLD_NEXT, "cudnnBackendExecute"));
  return Timed(execute, handle, plan, arguments);
}

int Convolution(void* handle, const void* alpha, const void* x_of, const void* x, const void* w_of, const void* w,
                const void* convolution, int algorithm, void* workspace, size_t workspace_bytes, const void* beta,
                const void* y_of, void* y) EXPORTED_AS("cudnnConvolutionForward");
int Convolution(void* handle, const void* alpha, const void* x_of, const void* x, const void* w_of, const void* w,
                const void* convolution, int algorithm, void* workspace, size_t workspace_bytes, const void* beta,
                const void* y_of, void* y) {
  static const auto convolve = reinterpret_cast<Convolve>(dlsym(RTLD_NEXT, "cudnnConvolutionForward"));
  return Timed(convolve, handle, alpha, x_of, x, w_of, w, convolution, algorithm, workspace, workspace_bytes, beta,
               y_of, y);
}

}  // namespace scoreboard
