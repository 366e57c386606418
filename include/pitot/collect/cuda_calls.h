// SPDX-License-Identifier: Apache-2.0
//
// Collect: records the calls of CUDA in which threads wait: synchronisations, blocking copies, allocations, loads of
// code. docs/guide/cuda_calls.md says which, and when they cannot be seen.
//
//   recorder.Add(pitot::MakeCudaCallCollector());
//
// It needs neither CUPTI nor a change of the program: it puts itself between the libraries of the process and CUDA's
// shared libraries.
#ifndef PITOT_COLLECT_CUDA_CALLS_H_
#define PITOT_COLLECT_CUDA_CALLS_H_

#include <stdint.h>

#include <memory>

#include "pitot/export.h"
#include "pitot/extend/collector.h"

PITOT_NAMESPACE_BEGIN

struct CudaCallOptions {
  // Asynchronous copies are recorded if they took at least so long, us, 1 to 1,000,000: they had to wait, as copies of
  // pageable memory do. So are allocations from pools: the pool had to grow.
  uint32_t slow_copy_us = 20;
};

// Changes the import tables of the libraries in this process that import functions of libcudart or libcuda: calls then
// go through Pitot. Its thread, "pitot-calls", looks for new libraries twice a second. On x86-64 the same happens to
// functions that a library looks up by name from then on, as one does that contains CUDA's runtime (nvcc's default):
// so add the collector before CUDA's first use. If no calls are seen, incidents say so ("cuda_calls.not_recorded").
// While CUPTI records the calls, too, each is there once.
// Threads: any. One collector in a process at a time.
// Errors: from Recorder::Add kInvalidArgument, which names the option, kAlreadyRunning, kResourceExhausted: no memory
//   or thread, and kUnavailable: Pitot's own library cannot be kept loaded. Libraries that cannot be changed are
//   counted in incidents.
// Lifetime: the recorder's. The import tables keep leading through Pitot until the process ends. So the library with
//   this function is never unloaded. Calls are then passed on, and nothing is recorded.
// Cost: a recorded call costs as much as a scope. A launch costs two clock reads and a few ns
//   more, a call after Recorder::Stop a few ns.
PITOT_EXPORT std::unique_ptr<Collector> MakeCudaCallCollector(const CudaCallOptions& options = {}) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_COLLECT_CUDA_CALLS_H_
