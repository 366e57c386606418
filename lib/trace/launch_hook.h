// SPDX-License-Identifier: Apache-2.0
//
// Lets a tool act around the launches of kernels: from who sees the calls (collect/cuda_calls) to who measures some of
// them (collect/profile).
#ifndef PITOT_LIB_TRACE_LAUNCH_HOOK_H_
#define PITOT_LIB_TRACE_LAUNCH_HOOK_H_

#include <atomic>
#include <cstdint>

namespace pitot::trace {

// How a call names its kernel: CUDA's runtime by a symbol of the program or a CUkernel, the driver by a CUfunction.
enum class KernelHandle : uint32_t { kSymbol, kKernel, kFunction };

// One call that enqueues work.
struct Launch {
  const void* kernel = nullptr;  // null: a graph, or a memory set
  KernelHandle handle = KernelHandle::kFunction;
  void* original = nullptr;  // CUDA's function that is called
  void* stream = nullptr;
  uint32_t grid[3] = {}, block[3] = {};
  uint64_t shared_bytes = 0;  // dynamic
  bool is_taken = false;      // for the hook
};

// What CUPTI must not be in the way of.
enum class Interruption : uint32_t { kNone, kReset, kCapture };

// Called on the threads of the calls. Each `before` is followed by its `after`. Calls may be nested: CUDA's runtime
// calls the driver.
struct LaunchHook {
  void (*before)(Launch* launch) noexcept;
  void (*after)(Launch* launch, int result) noexcept;
  void (*copy)() noexcept;  // a copy is about to be enqueued
  // A device is about to be reset, or a stream to be captured into a graph. Returns once nothing is in the way.
  void (*interrupt)(Interruption what) noexcept;
};

extern std::atomic<const LaunchHook*> g_launch_hook;  // null: none. It must live as long as the process.
extern std::atomic<bool> g_are_launches_seen;         // whether calls reach the hook now
extern std::atomic<int64_t> g_captures;               // captures that were seen to begin, less those that ended

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_LAUNCH_HOOK_H_
