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

int Recover(const RecoverOptions& options) {
  model::Trace trace;
  LoadReport report;
  const int loaded = Load(options.input, &trace, &report);
  if (loaded != kDone && loaded != kDamaged) return loaded;

  const std::string output = options.output.empty() ? WithExtension(options.input, ".recovered.pitot") : options.output;
  if (!AreDifferentFiles(options.input, output)) return kUsage;
  if (loaded == kDamaged) {
    const DumpReport& dump = report.dump;
    const std::string said =
        report.is_kineto ? absl::StrFormat("from damaged JSON: %d events kept, %d bad",
                                           report.kineto.events - report.kineto.events_bad, report.kineto.events_bad)
                         : absl::StrFormat("from a damaged dump: %d chunks kept, %d bad, %d bytes skipped", dump.chunks,
                                           dump.chunks_bad, dump.bytes_skipped);
    trace.attributes.push_back({trace.strings.Add("recovered"), trace.strings.Add(said)});
  }
  const std::unique_ptr<Serializer> serializer = MakeDumpSerializer();
  uint64_t bytes = 0;
  if (const int written = WriteFile(*serializer, trace, output, &bytes); written != kDone) return written;
  if (output == "-") return kDone;
  const model::CoverageIndex coverage(trace);
  Print(absl::StrFormat("%s%s holds %d events, %d requests and %d batches\n",
                        loaded == kDone ? options.input + " was complete; its copy " : "", output, trace.events.size(),
                        trace.requests.size(), trace.batches.size()));
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
  command.Add("-o,--output", &options->output, "Output file; - is stdout [the dump's name with .recovered.pitot]");
  command.Run([options] {
    options->input = DumpPath(options->input);
    return Recover(*options);
  });
}

}  // namespace pitot::cli
