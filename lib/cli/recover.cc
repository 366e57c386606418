// SPDX-License-Identifier: Apache-2.0
#include <errno.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/text.h"
#include "cli/box_incidents.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/files.h"
#include "model/is_empty.h"
#include "pitot/model/index.h"
#include "pitot/serialize/dump.h"
#include "session/post_mortem.h"

namespace pitot::cli {
namespace {

struct RecoverOptions {
  std::string input, output;
  std::optional<std::string> boxes;  // --post-mortem
  bool keeps = false;
};

void NoteRecovery(const LoadReport& report, model::Trace* trace) {
  const TraceReport& file = report.file;
  const DumpReport& dump = file.dump;
  const std::string said = !report.IsDump()
                               ? absl::StrFormat("from a damaged file of %s: %d events kept, %d bad", file.tool,
                                                 file.events - file.events_bad, file.events_bad)
                               : absl::StrFormat("from a damaged dump: %d chunks kept, %d bad, %d bytes skipped",
                                                 dump.chunks, dump.chunks_bad, dump.bytes_skipped);
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
      "nothing to recover: " + options.input + " is a whole " + (report.IsDump() ? "dump" : "trace");
  if (is_whole && options.output.empty()) {
    Print(whole + "\n");
    return kDone;
  }
  const std::string output = options.output.empty() ? WithExtension(options.input, ".recovered.pitot") : options.output;
  if (!IsNoInput(report.paths, output)) return kUsage;
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

// Returns the worst of several results.
int PostMortem(const RecoverOptions& options) {
  int error = 0;
  const std::vector<std::string> paths = session::BoxesIn(*options.boxes, &error);
  if (error != 0) {
    Complain(*options.boxes + ": " + base::SystemText(error));
    return kUnreadable;
  }
  int result = kNothingFound;
  ComplainOfFolder(*options.boxes);
  for (const std::string& path : paths) {
    session::FoundBox box(path, TrustWith(options.output));
    switch (box.Look()) {
      case session::FoundBox::Life::kDead:
        if (const int recovered = RecoverBox(&box, {}, {options.output, PrintIncident},
                                             options.keeps ? AfterIt::kKeep : AfterIt::kRemove);
            recovered != kDone || result == kNothingFound)
          result = recovered;
        break;
      case session::FoundBox::Life::kAlive:
        Complain(box.IsTaken() ? path + ": another process makes an incident of it"
                               : absl::StrFormat("%s: %s (process %d) is running", path,
                                                 box.reader().facts().process_name, box.reader().facts().pid));
        break;
      case session::FoundBox::Life::kEnded:
        if (!options.keeps) box.Remove();
        break;
      case session::FoundBox::Life::kBroken:
        if (box.error() == ENOENT) break;  // it was just removed
        Complain(path + ": " + box.why());
        if (box.IsUnwritten() && !options.keeps) box.Remove();
        if (result == kNothingFound || (result == kDone && box.error() != 0))
          result = box.error() != 0 ? kUnreadable : kNotADump;
    }
  }
  if (result == kNothingFound) Complain("no black box of a dead process in " + *options.boxes);
  return result;
}

}  // namespace

void AddRecover(CommandLine& line) {
  auto options = std::make_shared<RecoverOptions>();
  const Command command =
      line.Command("recover", "Writes the readable part of a damaged dump, or what a process did before it was killed");
  const Option dump = command.Add("dump", &options->input, kDumpHelp);
  command.Add("-o,--output", &options->output,
              "Output file; - is stdout [the dump's name with .recovered.pitot; of a whole dump none]. With "
              "--post-mortem: the directory for incidents [the one of the process's own incidents]");
  const Option boxes =
      command.Add("--post-mortem", &options->boxes,
                  "Make incidents of black boxes that dead processes left in this folder, and remove them");
  boxes.Excludes(dump);
  command.AddFlag("--keep", &options->keeps, "Leave the black boxes where they are").Needs(boxes);
  command.Footer(
      "Exit codes: 1 nothing could be recovered, or no process died; 3 the folder or a black box cannot be read, for "
      "example because it belongs to another user; 5 a black box is damaged; 6 no incident could be written; see "
      "`pitot --help` for others.");
  command.Run([options] {
    if (options->boxes) return PostMortem(*options);
    if (options->input.empty()) {
      Complain("recover: name a dump, or a folder of black boxes by --post-mortem");
      return static_cast<int>(kUsage);
    }
    options->input = DumpPath(options->input);
    return Recover(*options);
  });
}

}  // namespace pitot::cli
