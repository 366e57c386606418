// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "base/columns.h"
#include "cli/command.h"
#include "cli/doctor_machine.h"
#include "cli/files.h"

namespace pitot::cli {
namespace {

struct DoctorOptions {
  std::string incident_directory;
  bool json = false;
};

const char* HealthName(Health health) {
  return health == Health::kGood ? "good" : health == Health::kNote ? "note" : "problem";
}

int Doctor(const DoctorOptions& options) {
  const std::vector<Finding> findings = ExamineMachine(options.incident_directory);
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
    base::Lines lines;
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

void AddDoctor(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* command = app.add_subcommand("doctor", "Says what this machine allows: clock, limits, collectors");
  command->add_option("--incident-dir", options->incident_directory, "Also looks whether incidents can be kept there");
  command->add_flag("--json", options->json, "For programs: docs/cli.md");
  command->callback([options, &exit_code] { exit_code = Doctor(*options); });
}

}  // namespace pitot::cli
