// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/files.h"
#include "pitot/serialize/perfetto.h"

namespace pitot::cli {
namespace {

struct ConvertOptions {
  std::string input, output, format = "perfetto";
  bool compress = false;
};

uint64_t Deflate(void*, const void* data, uint64_t size, void* out, uint64_t capacity) {
  uLongf compressed = capacity;
  const int result = compress2(static_cast<Bytef*>(out), &compressed, static_cast<const Bytef*>(data), size, 6);
  return result == Z_OK && compressed < size ? compressed : 0;
}

int Convert(const ConvertOptions& options) {
  model::Trace trace;
  LoadReport report;
  const int loaded = Load(options.input, &trace, &report);
  if (loaded != kDone && loaded != kDamaged) return loaded;

  const std::string output = options.output.empty() ? WithExtension(options.input, ".pftrace") : options.output;
  if (!AreDifferentFiles(options.input, output)) return kUsage;
  PerfettoOptions perfetto;
  if (options.compress) perfetto.compress = Deflate;
  const std::unique_ptr<Serializer> serializer = MakePerfettoSerializer(perfetto);
  uint64_t bytes = 0;
  if (const int written = WriteFile(*serializer, trace, output, &bytes); written != kDone) return written;
  if (output != "-") {
    Print(absl::StrFormat("wrote %s (%d bytes); open it in https://ui.perfetto.dev\n", output, bytes));
  }
  return loaded;
}

}  // namespace

void AddConvert(CommandLine& line) {
  auto options = std::make_shared<ConvertOptions>();
  const Command command = line.Command("convert", "Converts a dump for a viewer");
  command.Add("dump", &options->input, kDumpHelp).Required();
  command.Add("--to", &options->format, "The format").OneOf({"perfetto"}).ShowDefault();
  command.AddFlag("--compress", &options->compress, "Compress the output, to about a quarter of the size");
  command.Add("-o,--output", &options->output, "Output file; - is stdout [the dump's name with .pftrace]");
  command.Run([options] {
    options->input = DumpPath(options->input);
    return Convert(*options);
  });
}

}  // namespace pitot::cli
