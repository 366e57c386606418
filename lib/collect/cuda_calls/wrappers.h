// SPDX-License-Identifier: Apache-2.0
//
// Our wrappers of CUDA's functions. They tell the watcher of streams (trace/stream_use.h) and the hook of launches
// (trace/launch_hook.h), record the calls in which a thread waits, and return the original's result.
#ifndef PITOT_LIB_COLLECT_CUDA_CALLS_WRAPPERS_H_
#define PITOT_LIB_COLLECT_CUDA_CALLS_WRAPPERS_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "collect/cuda_calls/imports.h"

namespace pitot::cuda_calls {

inline constexpr char kCollectorName[] = "cuda_calls";
// The libraries that have the functions.
inline constexpr std::string_view kProviders[] = {"libcudart.so", "libcuda.so", "libnvrtc.so"};

// In order of their names, dlsym among them.
std::span<const Function> Functions();

// Records calls from now on. An asynchronous copy, or an allocation from a pool, is recorded if it took `slow_copy_ns`,
// a launch if it took `slow_launch_ns`.
void BeginRecording(uint64_t slow_copy_ns, uint64_t slow_launch_ns) noexcept;
// Calls under way may still be recorded.
void EndRecording() noexcept;

}  // namespace pitot::cuda_calls

#endif  // PITOT_LIB_COLLECT_CUDA_CALLS_WRAPPERS_H_
