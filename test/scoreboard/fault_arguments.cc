// SPDX-License-Identifier: Apache-2.0
#include "scoreboard/fault_arguments.h"

#include <stdexcept>

namespace scoreboard {

FaultArguments::FaultArguments(const std::string& names, server_common::CommandLine* command_line,
                               FaultOptions* options)
    : options_(options) {
  command_line->Group("Faults");
  command_line->AddList("--fault", &texts_, "NAME[:rate=0.1,dose_ms=40,...], repeatable; NAME is " + names);
  command_line->Add("--fault-after", &options->after_s, "Seconds without faults after the start",
                    server_common::kNotNegative);
  command_line->Add("--fault-for", &options->for_s, "Seconds with faults after that; 0: without end",
                    server_common::kNotNegative);
  command_line->Add("--fault-seed", &options->seed, "Seed of the choice of victims");
  command_line->Add("--fault-log", &options->log_file, "File that gets a JSON line for each injected fault");
  command_line->Add("--fault-dir", &options->directory, "Directory that faults write files to");
  command_line->AddFlag("--allow-fault-control", &options->allow_control, "Serve POST /faultz and /incidentz");
}

void FaultArguments::Take(Fault (*parse)(std::string_view text)) {
  for (const std::string& text : texts_) {
    try {
      options_->faults.push_back(parse(text));
    } catch (const std::invalid_argument& error) {
      throw server_common::BadOption("--fault", error.what());
    }
  }
}

}  // namespace scoreboard
