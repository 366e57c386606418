// SPDX-License-Identifier: Apache-2.0
#include "pitot/collect/gpu.h"

#include <memory>
#include <utility>

#include "collect/counters/collector.h"
#include "collect/cuda_calls/collector.h"
#include "collect/cuda_events/collector.h"
#include "collect/nvml/collector.h"
#include "pitot/recorder.h"

PITOT_NAMESPACE_BEGIN
namespace gpu {
namespace {

// The one collector that knows at its start whether there is a driver: its message speaks for the others.
std::unique_ptr<Collector> MakeNvml(const NvmlOptions& options) noexcept {
  try {
    nvml::Environment environment = nvml::SystemEnvironment();
    environment.without_driver = "; until a driver is loaded, counters, waits and layers record nothing";
    return nvml::MakeCollector(options, std::move(environment));
  } catch (...) {
    return nullptr;
  }
}

}  // namespace

Status Enable(Recorder& recorder, const GpuOptions& options) noexcept {
  if (Status status = recorder.status(); !status.ok()) return status;
  Status first;
  const auto note = [&first](Status status) {
    if (first.ok()) first = std::move(status);
  };
  // Add refuses wrong options, and logs which.
  const auto refuse = [&](Status wrong, auto make, const auto& its_options) {
    if (!wrong.ok()) note(recorder.Add(make(its_options)));
  };
  if (options.with_counters) refuse(counters::Check(options.counters), MakeCounterCollector, options.counters);
  if (options.with_cuda_calls) refuse(cuda_calls::Check(options.cuda_calls), MakeCudaCallCollector, options.cuda_calls);
  if (options.with_cuda_events)
    refuse(cuda_events::Check(options.cuda_events), MakeCudaEventCollector, options.cuda_events);
  if (options.with_nvml) refuse(nvml::Check(options.nvml), MakeNvmlCollector, options.nvml);
  if (!first.ok()) return first;

  if (options.with_counters) note(recorder.Add(MakeCounterCollector(options.counters)));
  if (options.with_cuda_calls) note(recorder.Add(MakeCudaCallCollector(options.cuda_calls)));
  if (options.with_cuda_events) note(recorder.Add(MakeCudaEventCollector(options.cuda_events)));
  if (options.with_nvml) {
    Status status = recorder.Add(MakeNvml(options.nvml));
    const bool has_no_gpu = status.code() == StatusCode::kNotFound && options.nvml.library == nullptr;
    if (!has_no_gpu) note(std::move(status));
  }
  return first;
}

}  // namespace gpu
PITOT_NAMESPACE_END
