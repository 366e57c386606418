// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_format.h"
#include "cli/allowed.h"
#include "cli/command.h"
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

void AddConvert(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* command = app.add_subcommand("convert", "Converts a dump for a viewer");
  command->add_option("dump", options->input, kDumpHelp)->required();
  command->add_option("--to", options->format, "The format")->check(OneOf({"perfetto"}))->capture_default_str();
  command->add_flag("--compress", options->compress, "Compress the output, to about a quarter of the size");
  command->add_option("-o,--output", options->output, "Output file; - is stdout [the dump's name with .pftrace]");
  command->callback([options, &exit_code] {
    options->input = DumpPath(options->input);
    exit_code = Convert(*options);
  });
}

}  // namespace pitot::cli
