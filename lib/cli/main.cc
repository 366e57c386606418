// SPDX-License-Identifier: Apache-2.0
//
// `pitot`: answers questions about incidents, converts them, and tells what a machine supports.
#include <cstring>
#include <exception>
#include <string>

#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/files.h"

namespace {

constexpr const char* kFooter = R"(Exit codes:
  0  done
  1  the answer is empty; of doctor: something needs attention; of diff: a regression; of health: stalled
  2  wrong usage
  3  the file is missing or cannot be read
  4  the file is damaged: the answer covers the readable part
  5  the file is not a dump or trace, holds no whole chunk, or has an unknown version
  6  the output could not be written
  7  diff: inconclusive, it may or may not be a regression)";

}  // namespace

int main(int argc, char** argv) {
  using namespace pitot::cli;
  int exit_code = kDone;
  try {
    CommandLine line(
        "Reads the recordings of Pitot, the flight recorder for inference servers, and the traces of other tools.",
        kFooter);
    AddList(line);
    AddInfo(line);
    AddRequests(line);
    AddAnalyze(line);
    AddTop(line);
    AddRoofline(line);
    AddWhy(line);
    AddDiff(line);
    AddReport(line);
    AddView(line);
    AddConvert(line);
    AddQuery(line);
    AddRecover(line);
    AddHealth(line);
    AddWatch(line);
    AddRun(line);
    AddDoctor(line);
    AddCounters(line);
    exit_code = line.Run(argc, argv);
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
