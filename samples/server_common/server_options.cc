// SPDX-License-Identifier: Apache-2.0
#include "server_common/server_options.h"

namespace server_common {

void AddHttpOptions(CommandLine* command_line, HttpOptions* options) {
  command_line->Add("--port", &options->port, "Port on 127.0.0.1; 0: a free one", {0, 65535});
  command_line->Add("--port-file", &options->port_file, "File that gets the port once the server listens");
  command_line->Add("--http-threads", &options->threads, "Connections served at the same time", {1, 4096});
  command_line->Add("--max-body-bytes", &options->max_body_bytes, "Largest request body", {1, 1 << 30});
  command_line->AddFlag("--allow-incidentz", &options->allow_incidentz,
                        "Serve POST /incidentz, which asks for an incident");
}

void AddRecordingOptions(const std::string& works, CommandLine* command_line, RecordingOptions* options) {
  command_line->Group("Recording");
  command_line->Add("--incident-dir", &options->incident_directory, "Directory for incidents");
  command_line->AddFlag("--no-triggers", &options->trigger, "Only incidents that POST /incidentz asks for", false);
  command_line->AddFlag("--no-counters", &options->collect_counters, "Do not sample the GPU's hardware counters",
                        false);
  command_line->AddFlag("--no-cuda-calls", &options->collect_cuda_calls, "Do not record waits for the GPU", false);
  command_line->AddFlag("--no-cuda-events", &options->collect_cuda_events,
                        "Do not time " + works + " on the GPU by CUDA events", false);
  command_line->AddFlag("--no-nvml", &options->collect_nvml, "Do not record the state of the GPU", false);
  command_line->AddFlag("--no-cupti", &options->collect_cupti, "Never record kernels", false);
  command_line->AddFlag("--attach", &options->attach_cupti,
                        "Call CUPTI at the start, to record kernels at the automatic depth");
  command_line->Add("--lasting-cost", &options->lasting_cost_percent,
                    "Percent of lasting cost that recording kernels may leave; 100: any", {0, 100});
  command_line->AddFlag("--no-host", &options->collect_host, "Do not record why threads stop", false);
  command_line->AddFlag("--no-nvtx", &options->collect_nvtx, "Do not record NVTX ranges of libraries", false);
  command_line->AddFlag("--no-torch", &options->collect_torch, "Do not record LibTorch's operators", false);
  command_line->Add("--worker-cpu", &options->worker_cpu_percent,
                    "Percent of one CPU for writing incidents; 0: Pitot's default", {0, 100});
  command_line->AddFlag("--no-why", &options->judge, "Incidents without verdicts", false);
  command_line->Add("--baseline", &options->baseline_file, "File that keeps the baseline over restarts");
  command_line->AddFlag("--no-recorder", &options->record, "Serve unrecorded", false);
}

}  // namespace server_common
