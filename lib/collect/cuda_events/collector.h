// SPDX-License-Identifier: Apache-2.0
//
// The CUDA event collector and its environment: MakeCudaEventCollector passes the system's, tests pass their own.
#ifndef PITOT_LIB_COLLECT_CUDA_EVENTS_COLLECTOR_H_
#define PITOT_LIB_COLLECT_CUDA_EVENTS_COLLECTOR_H_

#include <cstdint>
#include <memory>
#include <string>

#include "pitot/collect/cuda_events.h"

namespace pitot::cuda_events {

struct Environment {
  std::string library = "libcuda.so.1";  // as loaded by the process
  // How long Keep waits for a round of the thread, and Stop for the thread's end; real time, ns.
  int64_t keep_patience_ns = 100'000'000;
  int64_t stop_patience_ns = 2'000'000'000;
  // The record of a span's end that takes so long has a call of its own: the thread waited for room or for the driver.
  uint64_t slow_end_ns = 200'000;
  int64_t retry_ns = 1'000'000'000;  // from a failed try to make a pool to the next; CLOCK_MONOTONIC
};

// Ok, or which option is wrong: Start then does nothing, and returns the same.
Status Check(const CudaEventOptions& options) noexcept;

// Makes the collector. Throws bad_alloc.
std::unique_ptr<Collector> MakeCollector(const CudaEventOptions& options, const Environment& environment);

}  // namespace pitot::cuda_events

#endif  // PITOT_LIB_COLLECT_CUDA_EVENTS_COLLECTOR_H_
