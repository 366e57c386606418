// SPDX-License-Identifier: Apache-2.0
#include "pitot/serialize/report.h"

#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "cli/command.h"
#include "cli/files.h"

namespace pitot::cli {
namespace {

struct ReportOptions {
  std::string input, output = "-";
};

int Report(const ReportOptions& options) {
  model::Trace trace;
  LoadReport report;
  const int loaded = Load(options.input, &trace, &report);
  if (loaded != kDone && loaded != kDamaged) return loaded;
  if (!AreDifferentFiles(options.input, options.output)) return kUsage;
  const std::unique_ptr<Serializer> serializer = MakeReportSerializer();
  uint64_t bytes = 0;
  const int written = WriteFile(*serializer, trace, options.output, &bytes);
  return written != kDone ? written : loaded;
}

}  // namespace

void AddReport(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* command = app.add_subcommand("report", "Prints the text report of a dump: its slow requests and why");
  command->add_option("dump", options->input, kDumpHelp)->required();
  command->add_option("-o,--output", options->output, "Where to; - is stdout")->capture_default_str();
  command->callback([options, &exit_code] {
    options->input = DumpPath(options->input);
    exit_code = Report(*options);
  });
}

}  // namespace pitot::cli
