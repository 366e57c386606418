// SPDX-License-Identifier: Apache-2.0
//
// `pitot`: answers questions about incidents, converts them, and tells what a machine supports.
#include <cstring>
#include <exception>
#include <string>
#include <string_view>

#include "CLI/CLI.hpp"
#include "cli/command.h"
#include "cli/files.h"
#include "pitot/version.h"

namespace {

constexpr const char* kFooter = R"(Exit codes:
  0  done
  1  the answer is empty; of doctor: something needs attention; of diff: a regression
  2  wrong usage
  3  the file is missing or cannot be read
  4  the file is damaged: the answer covers the readable part
  5  the file is not a dump or trace, holds no whole chunk, or has an unknown version
  6  the output could not be written
  7  diff: inconclusive, it may or may not be a regression)";

// For an option without a value, the library's message would name its own types.
std::string WhatIsWrong(const CLI::ParseError& error) {
  const std::string said = error.what();
  const bool is_without = error.get_name() == "ArgumentMismatch" && said.find(" missing") != std::string::npos;
  return is_without ? said.substr(0, said.find(':')) + ": the value is missing" : said;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace pitot::cli;
  int exit_code = kDone;
  try {
    CLI::App app("Reads the recordings of Pitot, the flight recorder for inference servers.", "pitot");
    app.set_version_flag("--version", "pitot " PITOT_VERSION_STRING);
    app.require_subcommand(1);
    app.footer(kFooter);
    AddInfo(app, exit_code);
    AddRequests(app, exit_code);
    AddAnalyze(app, exit_code);
    AddTop(app, exit_code);
    AddWhy(app, exit_code);
    AddDiff(app, exit_code);
    AddReport(app, exit_code);
    AddConvert(app, exit_code);
    AddRecover(app, exit_code);
    AddDoctor(app, exit_code);
    try {
      if (argc == 2 && std::string_view(argv[1]) == "help")
        return Print(app.help()), FlushOutput() == 0 ? kDone : kNotWritten;
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      const bool is_unknown = argc > 1 && argv[1][0] != '-' &&
                              app.get_subcommands([&](CLI::App* a) { return a->get_name() == argv[1]; }).empty();
      if (error.get_exit_code() == 0 && !is_unknown) return app.exit(error);  // --help, --version
      const std::string what = is_unknown ? "there is no command " + std::string(argv[1]) : WhatIsWrong(error);
      Complain(what + ". See `pitot --help`, or `pitot COMMAND --help`.");
      return kUsage;
    }
  } catch (const std::exception& error) {
    Complain(std::string("internal error: ") + error.what());
    return kUnreadable;
  }
  if (const int error = FlushOutput(); error != 0) {
    Complain(std::string("cannot write the output: ") + strerror(error));
    return kNotWritten;
  }
  return exit_code;
}
