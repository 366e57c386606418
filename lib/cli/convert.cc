// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/files.h"
#include "cli/gzipped.h"
#include "cli/perfetto_archive.h"
#include "cli/table_files.h"
#include "model/is_empty.h"
#include "pitot/analyze/otlp.h"
#include "pitot/serialize/kineto.h"
#include "pitot/serialize/otlp_profiles.h"
#include "pitot/serialize/perfetto.h"
#include "pitot/serialize/pprof.h"
#include "pitot/serialize/xspace.h"

namespace pitot::cli {
namespace {

uint64_t Deflate(void*, const void* data, uint64_t size, void* out, uint64_t capacity) {
  uLongf compressed = capacity;
  const int result = compress2(static_cast<Bytef*>(out), &compressed, static_cast<const Bytef*>(data), size, 6);
  return result == Z_OK && compressed < size ? compressed : 0;
}

std::unique_ptr<Serializer> MakePerfetto(bool is_compressed) {
  PerfettoOptions options;
  if (is_compressed) options.compress = Deflate;
  return MakePerfettoSerializer(options);
}
std::unique_ptr<Serializer> MakeKineto(bool) { return MakeKinetoSerializer(); }
std::unique_ptr<Serializer> MakeOtlp(bool) { return MakeJudgedOtlpSerializer(); }
std::unique_ptr<Serializer> MakeOtlpProfiles(bool) { return MakeOtlpProfilesSerializer(); }
std::unique_ptr<Serializer> MakePprof(bool) { return MakePprofSerializer(); }
std::unique_ptr<Serializer> MakeXSpace(bool) { return MakeXSpaceSerializer(); }

bool HasScopes(const model::Trace& trace) {
  return std::any_of(trace.events.site.begin(), trace.events.site.end(),
                     [&](uint32_t site) { return model::IsScope(trace.sites[site].kind); });
}
bool HasWork(const model::Trace& trace) {
  return std::any_of(trace.gpu.kind.begin(), trace.gpu.kind.end(),
                     [](model::GpuKind kind) { return kind != model::GpuKind::kSpan; });
}

// What the trace would have to have for a file of the format; "" if it has that.
const char* AnythingMissing(const model::Trace& trace) { return IsEmpty(trace) ? "events" : ""; }
const char* RequestsMissing(const model::Trace& trace) {
  if (trace.requests.empty() && trace.batches.empty()) return "requests";
  return trace.clock.realtime_ns == 0 ? "date" : "";
}
const char* TimeMissing(const model::Trace& trace) {
  return HasScopes(trace) || HasWork(trace) ? "" : "scopes and no GPU work";
}
const char* LinesMissing(const model::Trace& trace) {
  const bool has_any = HasScopes(trace) || HasWork(trace) || trace.calls.size() != 0 || !trace.requests.empty() ||
                       !trace.batches.empty();
  return has_any ? "" : "scopes, calls, requests and no GPU work";
}
// Other rows are marks for viewers: a file of those alone is not a profile.
const char* WorkMissing(const model::Trace& trace) {
  return HasScopes(trace) || HasWork(trace) || trace.calls.size() != 0 ? "" : "scopes, calls and no GPU work";
}

// What is written.
struct Target {
  const char* name;
  const char* extension;
  const char* open;                                         // what opens it
  std::unique_ptr<Serializer> (*make)(bool is_compressed);  // null: a folder of tables
  const char* (*missing)(const model::Trace& trace);
  bool compresses_itself;  // otherwise --compress makes a .gz
};
constexpr Target kTargets[] = {
    {"perfetto", ".pftrace", "open it in https://ui.perfetto.dev", MakePerfetto, AnythingMissing, true},
    {"kineto", ".pt.trace.json", "open it in TensorBoard, HTA or https://ui.perfetto.dev", MakeKineto, WorkMissing,
     false},
    {"otlp", ".otlp.pb", "post it as application/x-protobuf to /v1/traces of an OTLP receiver", MakeOtlp,
     RequestsMissing, false},
    {"parquet", ".tables", "query the tables in this folder with DuckDB, pandas or Spark", nullptr, AnythingMissing,
     true},
    {"otlp-profiles", ".otlp-profiles.pb",
     "post it as application/x-protobuf to /v1development/profiles of an OTLP receiver", MakeOtlpProfiles, TimeMissing,
     false},
    {"pprof", ".pb", "open it with `go tool pprof`", MakePprof, TimeMissing, false},
    {"xspace", ".xplane.pb", "put it into plugins/profile/RUN/ of a folder and open that with XProf", MakeXSpace,
     LinesMissing, false},
};

const Target& TargetOf(const std::string& name) {
  return *std::find_if(std::begin(kTargets), std::end(kTargets),
                       [&](const Target& known) { return known.name == name; });
}

struct ConvertOptions {
  std::vector<std::string> inputs;
  std::string output, format = kTargets[0].name;
  bool compress = false;
};

int ConvertToTables(const model::Trace& trace, const ConvertOptions& options, const std::string& folder, int loaded) {
  if (folder == "-") {
    Complain("--to parquet writes a folder, not stdout. Name one with -o.");
    return kUsage;
  }
  uint64_t bytes = 0;
  if (const int written = WriteTableFolder(trace, folder, options.compress, &bytes); written != kDone) return written;
  Print(absl::StrFormat("wrote %s/*.parquet (%d bytes); %s\n", folder, bytes, TargetOf("parquet").open));
  return loaded;
}

int ConvertAll(const ConvertOptions& options) {
  if (options.format != kTargets[0].name) {
    Complain("several dumps become one file with --to perfetto only. Convert each by itself.");
    return kUsage;
  }
  const std::string output = options.output.empty() ? WithExtension(options.inputs[0], ".tar") : options.output;
  if (!IsNoInput(options.inputs, output)) return kUsage;
  uint64_t bytes = 0;
  const int written = WritePerfettoArchive(*MakePerfetto(options.compress), options.inputs, output, &bytes);
  if ((written == kDone || written == kDamaged) && output != "-")
    Print(absl::StrFormat("wrote %s (%d bytes); %s\n", output, bytes, kTargets[0].open));
  return written;
}

int Convert(const ConvertOptions& options) {
  if (options.inputs.size() > 1) return ConvertAll(options);
  const std::string& input = options.inputs[0];
  model::Trace trace;
  LoadReport report;
  const int loaded = Load(input, &trace, &report);
  if (loaded != kDone && loaded != kDamaged) return loaded;

  const Target& target = TargetOf(options.format);
  if (const std::string missing = target.missing(trace); !missing.empty()) {
    const bool can_others = target.missing != AnythingMissing && *AnythingMissing(trace) == '\0';
    Complain(absl::StrFormat("%s has no %s: no file for %s was written.%s", input, missing, options.format,
                             can_others ? " --to perfetto and --to parquet need none." : ""));
    return ExitCodeOf(loaded, kNothingFound);
  }
  const bool is_gzipped = options.compress && !target.compresses_itself;
  const std::string extension = target.extension + std::string(is_gzipped ? ".gz" : "");
  const std::string output = options.output.empty() ? WithExtension(input, extension) : options.output;
  if (!IsNoInput(report.paths, output)) return kUsage;
  if (target.make == nullptr) return ConvertToTables(trace, options, output, loaded);
  std::unique_ptr<Serializer> serializer = target.make(options.compress);
  if (is_gzipped) serializer = MakeGzipped(std::move(serializer));
  uint64_t bytes = 0;
  if (const int written = WriteFile(*serializer, trace, output, &bytes); written != kDone) return written;
  if (output != "-") Print(absl::StrFormat("wrote %s (%d bytes); %s\n", output, bytes, target.open));
  return loaded;
}

}  // namespace

void AddConvert(CommandLine& line) {
  auto options = std::make_shared<ConvertOptions>();
  const Command command = line.Command("convert", "Converts a dump for a viewer");
  std::vector<std::string> names;
  std::string formats = "Formats:\n";
  for (const Target& target : kTargets) {
    names.emplace_back(target.name);
    formats += absl::StrFormat("  %-15s%s\n", target.name, target.open);
  }
  command.Add("dumps", &options->inputs, "The dump, or several: Perfetto shows them as one trace").Required();
  command.Add("--to", &options->format, "The format").OneOf(names).ShowDefault();
  command.AddFlag("--compress", &options->compress, "Compress the output, to about a quarter of the size");
  command.Add(
      "-o,--output", &options->output,
      "Output file, for parquet a folder; - is stdout [the dump's name with the format's extension, as .pftrace]");
  command.Footer(formats);
  command.Run([options] {
    for (std::string& input : options->inputs) input = DumpPath(input);
    return Convert(*options);
  });
}

}  // namespace pitot::cli
