// SPDX-License-Identifier: Apache-2.0
#include "server_common/recording.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "pitot/analyze/judge.h"
#include "pitot/collect/cupti.h"
#include "pitot/collect/gpu.h"
#include "pitot/collect/host.h"
#include "pitot/collect/nvtx.h"
#include "pitot/collect/torch.h"

namespace server_common {

pitot::Options WithRoomForOperators(pitot::Options recording) {
  const pitot::Options defaults;
  if (recording.memory_budget_bytes == defaults.memory_budget_bytes &&
      recording.max_ring_bytes == defaults.max_ring_bytes) {
    recording.memory_budget_bytes = uint64_t{512} << 20;
    recording.max_ring_bytes = uint64_t{8} << 20;
  }
  return recording;
}

pitot::Recorder StartRecorder(pitot::Options recording, const RecordingOptions& options, bool uses_cuda) {
  if (!options.record) return {};
  if (!options.incident_directory.empty()) recording.incident_directory = options.incident_directory.c_str();
  if (options.worker_cpu_percent != 0) recording.worker_cpu_percent = options.worker_cpu_percent;
  recording.log = [](void*, pitot::LogLevel, const char* message) { std::fprintf(stderr, "recorder: %s\n", message); };

  // Recording LibTorch's GPU memory makes it start CUDA. A server on the CPU must not do so: hide the GPUs from it.
  if (!uses_cuda) setenv("CUDA_VISIBLE_DEVICES", "", 1);  // no other thread runs yet

  pitot::Recorder recorder = pitot::Recorder::Start(recording);
  if (recorder.status().code() == pitot::StatusCode::kDisabled)  // not a failure, and not logged
    std::fprintf(stderr, "recorder: %s\n", recorder.status().message());
  if (!recorder.status().ok()) return recorder;

  // The recorder logs a collector that it refuses: statuses are ignored here.
  // NVTX first, before libraries emit their first range.
  if (options.collect_nvtx) (void)recorder.Add(pitot::MakeNvtxCollector());
  if (options.collect_host) (void)recorder.Add(pitot::MakeHostCollector());  // why threads stop
  // The default set for GPUs, and kernels where the host wants them, before CUDA starts.
  if (uses_cuda) {
    pitot::GpuOptions gpu;
    gpu.with_counters = options.collect_counters;
    gpu.with_cuda_calls = options.collect_cuda_calls;
    gpu.with_cuda_events = options.collect_cuda_events;
    gpu.with_nvml = options.collect_nvml;
    (void)pitot::gpu::Enable(recorder, gpu);
    pitot::CuptiOptions cupti;
    cupti.lasting_cost_percent = options.lasting_cost_percent;
    if (options.attach_cupti) cupti.attach = pitot::CuptiAttach::kAtStart;
    if (options.collect_cupti) (void)recorder.Add(pitot::MakeCuptiCollector(cupti));
  }
  // Operators and memory of LibTorch; this starts CUDA.
  if (options.collect_torch) (void)pitot::torch::Enable(recorder);

  if (options.judge) {
    pitot::WhyJudgeOptions why;
    if (!options.baseline_file.empty()) why.baseline_file = options.baseline_file.c_str();
    (void)recorder.Add(pitot::MakeWhyJudge(why));
  }

  pitot::Hooks hooks;
  hooks.on_incident = [](void*, const pitot::IncidentInfo& incident) {
    std::fprintf(stderr, "incident %llu: %s: %s: %s\n", static_cast<unsigned long long>(incident.number),
                 incident.cause, incident.detail,
                 incident.directory != nullptr ? incident.directory : incident.status.message());
  };
  hooks.on_verdict = [](void*, const pitot::IncidentInfo& incident) {
    if (const std::string line = VerdictLine(incident.verdict); !line.empty())
      std::fprintf(stderr, "incident %llu: %s\n", static_cast<unsigned long long>(incident.number), line.c_str());
  };
  (void)recorder.SetHooks(hooks);
  return recorder;
}

std::string VerdictLine(std::string_view verdict) {
  constexpr std::string_view kIncident = "incident ";  // the line after the sentence
  std::string text;
  while (!verdict.empty()) {
    const std::string_view line = verdict.substr(0, verdict.find('\n'));
    if (line.substr(0, kIncident.size()) == kIncident) return text;
    text += (text.empty() ? "" : " ") + std::string(line);
    verdict.remove_prefix(std::min(line.size() + 1, verdict.size()));
  }
  return "";
}

}  // namespace server_common
