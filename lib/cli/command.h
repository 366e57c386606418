// SPDX-License-Identifier: Apache-2.0
//
// Common parts of the subcommands of `pitot`: how each joins the program, and the exit codes.
#ifndef PITOT_LIB_CLI_COMMAND_H_
#define PITOT_LIB_CLI_COMMAND_H_

namespace pitot::cli {

class CommandLine;

// The numbers are promised in `pitot --help` and docs/reference/cli.md.
enum ExitCode {
  kDone = 0,
  kNothingFound = 1,  // the answer is empty; doctor: something needs attention; diff: a regression
  kUsage = 2,
  kUnreadable = 3,    // the file is missing or cannot be read
  kDamaged = 4,       // the file is damaged: the undamaged part was read and answered
  kNotADump = 5,      // neither dump nor trace, nothing intact in it, or of an unknown version
  kNotWritten = 6,    // the output could not be written
  kInconclusive = 7,  // diff: it may or may not be a regression
};

// For the argument that DumpPath reads.
inline constexpr const char* kDumpHelp =
    "A dump, the directory of its incident, a directory of incidents (the newest is used), or a trace of another tool: "
    "PyTorch's profiler, ONNX Runtime, JAX, Nsight Systems, rocprofv3, Perfetto, OTLP, Chrome JSON; - is stdin";
// After it, for a command that takes several.
inline constexpr const char* kSeveralHelp = ". Several are read as one trace, joined by their clocks";

// Each adds its command.
void AddInfo(CommandLine& line);
void AddList(CommandLine& line);
void AddRequests(CommandLine& line);
void AddAnalyze(CommandLine& line);
void AddTop(CommandLine& line);
void AddWhy(CommandLine& line);
void AddDiff(CommandLine& line);
void AddConvert(CommandLine& line);
void AddQuery(CommandLine& line);
void AddRecover(CommandLine& line);
void AddReport(CommandLine& line);
void AddRoofline(CommandLine& line);
void AddDoctor(CommandLine& line);
void AddCounters(CommandLine& line);
void AddHealth(CommandLine& line);
void AddRun(CommandLine& line);
void AddView(CommandLine& line);
void AddWatch(CommandLine& line);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_COMMAND_H_
