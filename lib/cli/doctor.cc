// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/columns.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/doctor_gpu.h"
#include "cli/doctor_machine.h"
#include "cli/files.h"

namespace pitot::cli {
namespace {

struct DoctorOptions {
  std::string incident_directory;
  std::string root;  // put before /proc and /sys
  GpuPlaces gpus;
  double patience_s = 30;
  bool json = false;
};

const char* HealthName(Health health) {
  return health == Health::kGood ? "good" : health == Health::kNote ? "note" : "problem";
}

int Doctor(const DoctorOptions& options) {
  std::vector<Finding> findings = ExamineMachine(options.incident_directory, options.root);
  GpuPlaces places = options.gpus;
  places.patience_ns = static_cast<int64_t>(options.patience_s * 1e9);
  for (Finding& finding : ExamineGpus(places)) findings.push_back(std::move(finding));
  const bool has_problem =
      std::any_of(findings.begin(), findings.end(), [](const Finding& f) { return f.health == Health::kProblem; });
  if (options.json) {
    nlohmann::ordered_json document;
    document["healthy"] = !has_problem;
    document["findings"] = nlohmann::ordered_json::array();
    for (const Finding& finding : findings) {
      document["findings"].push_back({{"topic", finding.topic},
                                      {"health", HealthName(finding.health)},
                                      {"answer", finding.answer},
                                      {"advice", finding.advice}});
    }
    Print(document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  } else {
    base::Lines lines(WrapWidth(base::kColumns));
    for (const Finding& finding : findings) {
      lines.AddWrapped(0, base::PadRight(HealthName(finding.health), 9) + base::PadRight(finding.topic, 20),
                       finding.answer);
      if (!finding.advice.empty()) lines.AddWrapped(29, "-> ", finding.advice);
    }
    lines.Blank();
    lines.Add(0, has_problem ? "Something needs attention." : "A recorder can run here.");
    Print(lines.text());
  }
  return has_problem ? kNothingFound : kDone;
}

}  // namespace

void AddDoctor(CommandLine& line) {
  auto options = std::make_shared<DoctorOptions>();
  const Command command = line.Command("doctor", "Checks this machine: clock, limits, GPUs");
  command.Add("--incident-dir", &options->incident_directory, "Also check whether incidents can be kept there");
  command.Add("--cupti", &options->gpus.cupti, "The libcupti to try, as in the server's CuptiOptions::library");
  // Hidden: for tests, and for machines where something hangs for longer.
  command.Add("--host-root", &options->root).HideFromHelp();
  command.Add("--driver", &options->gpus.driver).HideFromHelp();
  command.Add("--driver-files", &options->gpus.driver_files).HideFromHelp();
  command.Add("--nvml", &options->gpus.nvml).HideFromHelp();
  command.Add("--own-status", &options->gpus.own_status).HideFromHelp();
  command.Add("--shared-directory", &options->gpus.shared_directory).HideFromHelp();
  command.Add("--patience", &options->patience_s).HideFromHelp().Number(0.01, 3600);
  command.AddFlag("--json", &options->json, "For programs: docs/reference/cli.md");
  command.Run([options] { return Doctor(*options); });
}

}  // namespace pitot::cli
