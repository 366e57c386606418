// SPDX-License-Identifier: Apache-2.0
//
// The CUDA event collector with what it gets from outside: MakeCudaEventCollector gives it the system's, tests their
// own.
#ifndef PITOT_LIB_COLLECT_CUDA_EVENTS_COLLECTOR_H_
#define PITOT_LIB_COLLECT_CUDA_EVENTS_COLLECTOR_H_

#include <cstdint>
#include <memory>
#include <string>

#include "pitot/collect/cuda_events.h"

namespace pitot::cuda_events {

struct Environment {
  std::string library = "libcuda.so.1";  // as the process has loaded it
  // How long Keep waits for a round of the thread, and Stop for its end; real time, ns.
  int64_t keep_patience_ns = 100'000'000;
  int64_t stop_patience_ns = 2'000'000'000;
  int64_t retry_ns = 1'000'000'000;  // from a pool that could not be made to the next try; CLOCK_MONOTONIC
};

// Throws bad_alloc.
std::unique_ptr<Collector> MakeCollector(const CudaEventOptions& options, const Environment& environment);

}  // namespace pitot::cuda_events

#endif  // PITOT_LIB_COLLECT_CUDA_EVENTS_COLLECTOR_H_
