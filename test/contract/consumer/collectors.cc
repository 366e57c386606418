// SPDX-License-Identifier: Apache-2.0
//
// A server with collectors, for a machine with or without a GPU. docs/guide adds them by the same lines.
#include <pitot/collect/counters.h>
#include <pitot/collect/cuda_calls.h>
#include <pitot/collect/cuda_events.h>
#include <pitot/collect/cupti.h>
#include <pitot/collect/gpu.h>
#include <pitot/collect/host.h>
#include <pitot/collect/nvml.h>
#include <pitot/collect/nvtx.h>
#include <pitot/collect/opencl.h>
#include <pitot/collect/profile.h>
#include <pitot/collect/stacks.h>
#include <pitot/pitot.h>

#include <cstdio>

namespace {

void EnqueueForward(void* stream) { std::printf("stream %p, ", stream); }

}  // namespace

int main() {
  pitot::Recorder recorder = pitot::Recorder::Start(pitot::Options());
  const pitot::Status cupti = recorder.Add(pitot::MakeCuptiCollector());
  const pitot::Status counters = recorder.Add(pitot::MakeCounterCollector());
  const pitot::Status host = recorder.Add(pitot::MakeHostCollector());
  const pitot::Status stacks = recorder.Add(pitot::MakeStackCollector());
  const pitot::Status nvml = recorder.Add(pitot::MakeNvmlCollector());
  const pitot::Status calls = recorder.Add(pitot::MakeCudaCallCollector());
  const pitot::Status events = recorder.Add(pitot::MakeCudaEventCollector());
  // The status tells whether libraries can find Pitot in this program, as linked.
  const pitot::Status nvtx = recorder.Add(pitot::MakeNvtxCollector());
  const pitot::Status opencl = recorder.Add(pitot::MakeOpenClCollector());
  void* const stream = nullptr;  // the default one
  {
    pitot::CudaEventScope scope(stream, "forward");
    EnqueueForward(stream);
  }
  const pitot::Status gpu = pitot::gpu::Enable(recorder);  // its collectors are there already
  pitot::ProfileOptions of_attention;
  of_attention.kernel = "FusedAttention";
  of_attention.timeout_ms = 1;
  pitot::Profile profile;  // this program launches nothing
  const pitot::Status profiled = pitot::ProfileKernels(recorder, of_attention, &profile);
  recorder.Stop();
  std::printf("counters: %s, cupti: %s, host: %s, nvml: %s, CUDA calls: %s, CUDA events: %s, NVTX: %s, OpenCL: %s\n",
              pitot::StatusCodeName(counters.code()), pitot::StatusCodeName(cupti.code()),
              pitot::StatusCodeName(host.code()), pitot::StatusCodeName(nvml.code()),
              pitot::StatusCodeName(calls.code()), pitot::StatusCodeName(events.code()),
              pitot::StatusCodeName(nvtx.code()), pitot::StatusCodeName(opencl.code()));
  const auto is_defect = [](const pitot::Status& status) { return status.code() == pitot::StatusCode::kInternal; };
  return is_defect(cupti) || is_defect(nvml) || is_defect(profiled) || profiled.ok() ||
                 gpu.code() != pitot::StatusCode::kAlreadyRunning || !counters.ok() || !host.ok() || !stacks.ok() ||
                 !calls.ok() || !events.ok() || !nvtx.ok() || !opencl.ok()
             ? 1
             : 0;
}
