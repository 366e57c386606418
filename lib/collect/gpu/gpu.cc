// SPDX-License-Identifier: Apache-2.0
#include "pitot/collect/gpu.h"

#include <utility>

#include "pitot/recorder.h"

PITOT_NAMESPACE_BEGIN
namespace gpu {

Status Enable(Recorder& recorder, const GpuOptions& options) noexcept {
  if (Status status = recorder.status(); !status.ok()) return status;
  Status first;
  const auto note = [&first](Status status) {
    if (first.ok()) first = std::move(status);
  };
  if (options.with_counters) note(recorder.Add(MakeCounterCollector(options.counters)));
  if (options.with_cuda_calls) note(recorder.Add(MakeCudaCallCollector(options.cuda_calls)));
  if (options.with_cuda_events) note(recorder.Add(MakeCudaEventCollector(options.cuda_events)));
  if (options.with_nvml) {
    Status status = recorder.Add(MakeNvmlCollector(options.nvml));
    const bool has_no_gpu = status.code() == StatusCode::kNotFound && options.nvml.library == nullptr;
    if (!has_no_gpu) note(std::move(status));
  }
  return first;
}

}  // namespace gpu
PITOT_NAMESPACE_END
