// SPDX-License-Identifier: Apache-2.0
#include "server_common/command_line.h"

#include <stdexcept>

namespace server_common {

void AddRecordingOptions(const std::string& works, CLI::App* app, RecordingOptions* options) {
  auto* const group = kRecordingGroup;
  app->add_option("--incident-dir", options->incident_directory, "Directory for incidents")->group(group);
  app->add_flag("!--no-triggers", options->trigger, "No incidents but those asked for by POST /incidentz")
      ->group(group);
  app->add_flag("!--no-cupti", options->collect_cupti, "Do not record what the GPU does")->group(group);
  app->add_flag("!--no-attach", options->attach_at_start, "Do not call CUPTI before kernels are wanted")->group(group);
  app->add_option("--lasting-cost", options->lasting_cost_percent,
                  "Percent that recording kernels may leave behind for good; 100: any")
      ->check(CLI::Range(0.0, 100.0))
      ->group(group);
  app->add_flag("!--no-cuda-events", options->collect_cuda_events,
                "Do not time " + works + " on the GPU by CUDA events")
      ->group(group);
  app->add_flag("!--no-nvml", options->collect_nvml, "Do not record what state the GPU is in")->group(group);
  app->add_flag("!--no-host", options->collect_host, "Do not record what stops threads")->group(group);
  app->add_flag("!--no-nvtx", options->collect_nvtx, "Do not record what libraries emit to NVTX")->group(group);
  app->add_flag("!--no-torch", options->collect_torch, "Do not record LibTorch's operators")->group(group);
  app->add_option("--worker-cpu", options->worker_cpu_percent,
                  "Percent of one CPU that writing incidents may take; 0: as usual")
      ->check(CLI::Range(0, 100))
      ->group(group);
  app->add_flag("!--no-why", options->judge, "Do not have incidents say why their requests were slow")->group(group);
  app->add_option("--baseline", options->baseline_file, "File that keeps what is normal over restarts")->group(group);
  app->add_flag("!--no-recorder", options->record, "Serve unrecorded")->group(group);
}

FaultArguments::FaultArguments(const std::string& names, CLI::App* app, FaultOptions* options, bool* allow_control)
    : options_(options) {
  auto* const group = kFaultsGroup;
  app->add_option("--fault", texts_, "NAME[:rate=0.1,dose_ms=40,...], repeatable; NAME is " + names)
      ->take_all()
      ->delimiter('\0')
      ->default_str("")
      ->group(group);
  app->add_option("--fault-after", options->after_s, "Seconds without faults after the start")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  app->add_option("--fault-for", options->for_s, "Seconds with faults after that; 0: for ever")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  app->add_option("--fault-seed", options->seed, "Of the choice of victims")->group(group);
  app->add_option("--fault-log", options->log_file, "File that gets a JSON line per injected fault")->group(group);
  app->add_flag("--allow-fault-control", *allow_control, "Serve POST /faultz")->group(group);
}

void FaultArguments::Take(Fault (*parse)(std::string_view text)) {
  for (const std::string& text : texts_) {
    try {
      options_->faults.push_back(parse(text));
    } catch (const std::invalid_argument& error) {
      throw CLI::ValidationError("--fault", error.what());
    }
  }
}

}  // namespace server_common
