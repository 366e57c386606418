// SPDX-License-Identifier: Apache-2.0
//
// The collector of CUDA calls and its environment: MakeCudaCallCollector passes the system's, tests pass their own.
#ifndef PITOT_LIB_COLLECT_CUDA_CALLS_COLLECTOR_H_
#define PITOT_LIB_COLLECT_CUDA_CALLS_COLLECTOR_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "collect/cuda_calls/wrappers.h"
#include "pitot/collect/cuda_calls.h"

namespace pitot::cuda_calls {

struct Environment {
  std::span<const Function> functions = Functions();
  std::span<const std::string_view> providers = kProviders;
  int64_t look_ns = 500'000'000;  // between looks for new libraries; real time
  int64_t stop_patience_ns = 2'000'000'000;
  // A launch that takes so long has a record: it loads a kernel, or waits for room or for the driver.
  uint64_t slow_launch_ns = 200'000;
};

// Ok, or which option is wrong: Start then does nothing, and returns the same.
Status Check(const CudaCallOptions& options) noexcept;

// Makes the collector. Throws bad_alloc.
std::unique_ptr<Collector> MakeCollector(const CudaCallOptions& options, const Environment& environment);

}  // namespace pitot::cuda_calls

#endif  // PITOT_LIB_COLLECT_CUDA_CALLS_COLLECTOR_H_
