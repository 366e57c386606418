// SPDX-License-Identifier: Apache-2.0
//
// Collect: everything of NVIDIA GPUs that can be recorded all the time: hardware counters, the layers of batches by
// CUDA events, the calls in which threads wait, and the state by NVML. docs/guide/gpu.md says what is recorded and at
// what cost.
//
//   pitot::gpu::Enable(recorder);  // after Recorder::Start
//
// It never calls CUPTI's activity or callback API, which makes GPU work dearer. So there are no kernels; for these add
// MakeCuptiCollector, too, and fix a depth when you want them.
#ifndef PITOT_COLLECT_GPU_H_
#define PITOT_COLLECT_GPU_H_

#include "pitot/collect/counters.h"
#include "pitot/collect/cuda_calls.h"
#include "pitot/collect/cuda_events.h"
#include "pitot/collect/nvml.h"
#include "pitot/export.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN

class Recorder;

// False leaves the collector out.
struct GpuOptions {
  bool with_counters = true;
  CounterOptions counters;
  bool with_cuda_calls = true;
  CudaCallOptions cuda_calls;
  bool with_cuda_events = true;
  CudaEventOptions cuda_events;
  bool with_nvml = true;
  NvmlOptions nvml;
};

namespace gpu {

// Adds the collectors to a running recorder, before or after the first use of CUDA. Each works without the others.
// Errors: the first of any collector (those of MakeCounterCollector and so on). Options are checked first: a wrong one,
//   or a file of a library that cannot be found, adds no collector, and the log names each. After an error at a start
//   the others stay added: leave them out of a further call. kAlreadyRunning: this process has one of that kind
//   already. A machine without a driver or GPU is not an error: kNotFound of NVML is
//   left out, unless NvmlOptions::library names a file. Recorder::Add has logged it, and incidents say it.
// Threads: any, but not while a library is being loaded.
// Lifetime: the recorder's.
// Cost: waits for NVML, 10 s at most. From then on, that of each collector.
PITOT_EXPORT Status Enable(Recorder& recorder, const GpuOptions& options = {}) noexcept;

}  // namespace gpu

PITOT_NAMESPACE_END

#endif  // PITOT_COLLECT_GPU_H_
