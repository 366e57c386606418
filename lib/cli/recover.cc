// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/files.h"
#include "pitot/model/index.h"
#include "pitot/serialize/dump.h"

namespace pitot::cli {
namespace {

struct RecoverOptions {
  std::string input, output;
};

void NoteRecovery(const LoadReport& report, model::Trace* trace) {
  const DumpReport& dump = report.dump;
  const std::string said =
      report.is_kineto ? absl::StrFormat("from damaged JSON: %d events kept, %d bad",
                                         report.kineto.events - report.kineto.events_bad, report.kineto.events_bad)
                       : absl::StrFormat("from a damaged dump: %d chunks kept, %d bad, %d bytes skipped", dump.chunks,
                                         dump.chunks_bad, dump.bytes_skipped);
  trace->attributes.push_back({trace->strings.Add("recovered"), trace->strings.Add(said)});
}

int Recover(const RecoverOptions& options) {
  model::Trace trace;
  LoadReport report;
  report.is_recovering = true;
  const int loaded = Load(options.input, &trace, &report);
  if (loaded != kDone && loaded != kDamaged) return loaded;

  const bool is_whole = loaded == kDone;
  const std::string whole =
      "nothing to recover: " + options.input + " is a whole " + (report.is_kineto ? "trace" : "dump");
  if (is_whole && options.output.empty()) {
    Print(whole + "\n");
    return kDone;
  }
  const std::string output = options.output.empty() ? WithExtension(options.input, ".recovered.pitot") : options.output;
  if (!AreDifferentFiles(options.input, output)) return kUsage;
  if (!is_whole && IsEmpty(trace)) {
    Complain("nothing could be recovered: the readable part of " + options.input +
             " has no events, requests or GPU records; nothing was written");
    return kNothingFound;
  }
  if (!is_whole) NoteRecovery(report, &trace);
  const std::unique_ptr<Serializer> serializer = MakeDumpSerializer();
  uint64_t bytes = 0;
  if (const int written = WriteFile(*serializer, trace, output, &bytes); written != kDone) return written;
  if (output == "-") return kDone;
  const model::CoverageIndex coverage(trace);
  Print(absl::StrFormat("%s%s holds %d events, %d requests and %d batches\n", is_whole ? whole + "; the copy " : "",
                        output, trace.events.size(), trace.requests.size(), trace.batches.size()));
  if (coverage.HasGpu() && coverage.IsDamaged())
    Print(
        absl::StrFormat("It holds %d GPU records; the number of missing ones is not known, nor therefore the kernel "
                        "coverage of its requests\n",
                        trace.gpu.size()));
  return kDone;
}

}  // namespace

void AddRecover(CommandLine& line) {
  auto options = std::make_shared<RecoverOptions>();
  const Command command =
      line.Command("recover", "Writes the readable part of a truncated or damaged dump to a new one");
  command.Add("dump", &options->input, kDumpHelp).Required();
  command.Add("-o,--output", &options->output,
              "Output file; - is stdout [the dump's name with .recovered.pitot; of a whole dump none]");
  command.Footer("Exit codes: 1 nothing could be recovered; see `pitot --help` for others.");
  command.Run([options] {
    options->input = DumpPath(options->input);
    return Recover(*options);
  });
}

}  // namespace pitot::cli
