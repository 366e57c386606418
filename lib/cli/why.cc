// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/why.h"

#include <charconv>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "base/columns.h"
#include "cli/command.h"
#include "cli/files.h"
#include "cli/judge.h"
#include "pitot/analyze/verdict.h"

namespace pitot::cli {
namespace {

using model::kNone;
using model::Trace;

struct WhyArguments {
  std::string input, request;
  bool json = false;
};

int Why(const WhyArguments& arguments) {
  uint64_t id = 0;
  if (!arguments.request.empty()) {
    const char* const end = arguments.request.data() + arguments.request.size();
    const auto [read, error] = std::from_chars(arguments.request.data(), end, id, 16);
    if (error != std::errc() || read != end || id == 0) {
      Complain("--request: " + arguments.request + " is no request's id, which are hexadecimal: `pitot requests`");
      return kUsage;
    }
  }
  Trace trace;
  LoadReport report;
  const int loaded = Load(arguments.input, &trace, &report);
  if (loaded != kDone && loaded != kDamaged) return loaded;
  const int none = loaded == kDamaged ? kDamaged : kNothingFound;
  const uint32_t row = ChooseRequest(trace, id);
  if (row == kNone) {
    Complain(id != 0 ? "no request " + base::RequestId(id) + " is in " + arguments.input
                     : "no request that began and ended is in " + arguments.input);
    return none;
  }
  Judgement judgement;
  if (const Status status = Judge(trace, row, &judgement); !status.ok()) {
    Complain(status.message());
    return status.code() == StatusCode::kNotFound ? none : kUnreadable;
  }
  const auto& [index, blame, verdict] = judgement;
  Print(arguments.json ? VerdictJson(index, blame, verdict) : VerdictText(index, blame, verdict));
  return loaded;
}

}  // namespace

void AddWhy(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<WhyArguments>();
  CLI::App* command =
      app.add_subcommand("why", "Says why a request was slow: what was not normal, by how much, whose fault");
  command->add_option("dump", arguments->input, kDumpHelp)->required();
  command->add_option("--request", arguments->request,
                      "The request with this id; else the one that a trigger fired for, else the slowest");
  command->add_flag("--json", arguments->json, "For programs, in whole ns: docs/cli.md");
  command->callback([arguments, &exit_code] {
    arguments->input = DumpPath(arguments->input);
    exit_code = Why(*arguments);
  });
}

}  // namespace pitot::cli
