// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/columns.h"
#include "base/host_counters.h"
#include "base/quantile.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/files.h"
#include "cli/info_counters.h"
#include "cli/request_id.h"
#include "cli/several_files.h"
#include "model/host_language.h"
#include "model/lacking.h"
#include "model/losses.h"
#include "model/moment.h"
#include "model/parts.h"
#include "model/recorded.h"
#include "model/request_text.h"
#include "pitot/model/index.h"
#include "serialize/report_host.h"

namespace pitot::cli {
namespace {

using base::Count;
using base::Duration;
using base::Lines;
using base::PadLeft;
using base::PadRight;
using model::kNone;
using model::kOpen;
using model::Trace;
using nlohmann::ordered_json;

struct InfoOptions {
  std::vector<std::string> inputs;  // `input`: their names, for messages
  std::string input, request;
  bool json = false, counters = false;
};

// Requests of one route; the latencies are those of finished ones.
struct RouteSummary {
  uint64_t count = 0, ok = 0, open = 0;
  std::vector<int64_t> latencies_ns;
  int64_t Quantile(double quantile) const { return base::Quantile(latencies_ns, quantile); }
};

std::map<std::string, RouteSummary> ByRoute(const Trace& trace) {
  std::map<std::string, RouteSummary> routes;
  for (const model::RequestRow& request : trace.requests) {
    RouteSummary& route = routes[std::string(trace.strings[request.route])];
    ++route.count;
    route.open += request.duration_ns == kOpen;
    if (!request.end_known || !request.begin_known) continue;
    route.ok += request.outcome == Outcome::kOk;
    route.latencies_ns.push_back(request.duration_ns);
  }
  return routes;
}

std::string Str(const Trace& trace, model::StringId id) { return std::string(trace.strings[id]); }
std::string ThreadName(const Trace& trace, uint32_t thread) {
  return thread == kNone ? "(process)" : Str(trace, trace.threads[thread].name);
}
int64_t Realtime(const Trace& trace, int64_t ns) { return ns - trace.clock.monotonic_ns + trace.clock.realtime_ns; }

bool HasGpuFacts(const Trace& trace) {
  return !trace.devices.empty() || trace.gpu.size() != 0 || trace.calls.size() != 0 || !trace.depths.empty() ||
         !trace.gpu_losses.empty();
}
bool HasOwnCounters(const Trace& trace) {
  const model::Parts parts(trace);
  return std::any_of(trace.counters.begin(), trace.counters.end(), [&](const model::CounterRow& row) {
    return !base::IsHostCounter(parts.Split(trace.strings[row.name]).own);
  });
}
std::string StreamName(const Trace& trace, uint32_t stream) {
  return absl::StrFormat("stream %d (context %d)", trace.streams[stream].stream, trace.streams[stream].context);
}
std::string LossName(const Trace& trace, const model::GpuLossRow& loss) {
  if (loss.stream != kNone) return StreamName(trace, loss.stream);
  if (loss.device == kNone) return "(any stream)";
  return absl::StrFormat("GPU %d (any stream)", trace.devices[loss.device].ordinal);
}

// How long kernels were recorded, in the window and in batches.
struct KernelTimes {
  bool is_known = false;
  int64_t recorded_ns = 0;
  int64_t whole_ns = 0;  // the part without lost records
  uint64_t batches = 0;  // those with at least four fifths of their time known to be recorded
};
KernelTimes KernelTimesOf(const Trace& trace) {
  const model::CoverageIndex coverage(trace);
  KernelTimes times;
  times.is_known = !trace.depths.empty() && !coverage.IsDamaged();
  std::vector<model::Interval> deep, lost;
  for (const model::DepthRow& row : trace.depths) {
    if (row.depth >= Depth::kKernels) deep.push_back({row.begin_ns, row.end_ns});
  }
  for (const model::GpuLossRow& loss : trace.gpu_losses) lost.push_back({loss.begin_ns, loss.end_ns});
  const model::Intervals recorded =
      model::Intersection(model::Union(std::move(deep)), model::Union({{trace.window_begin_ns, trace.window_end_ns}}));
  times.recorded_ns = model::TotalNs(recorded);
  times.whole_ns = model::TotalNs(model::Difference(recorded, model::Union(std::move(lost))));
  for (uint32_t batch = 0; batch < trace.batches.size(); ++batch) times.batches += coverage.IsMostlyRecorded(batch);
  return times;
}
std::string KernelText(const Trace& trace) {
  const KernelTimes times = KernelTimesOf(trace);
  if (!times.is_known) return "the recorded time is not known";
  const int64_t window_ns = trace.window_end_ns - trace.window_begin_ns;
  std::string text = "recorded for " + Duration(times.recorded_ns) + " of the window's " + Duration(window_ns);
  if (times.whole_ns != times.recorded_ns) text += ", " + Duration(times.whole_ns) + " of it without losses";
  text += " (" + base::Coverage(times.whole_ns, window_ns) + ")";
  if (!trace.batches.empty())
    text +=
        "; " + Count(times.batches) + " of " + Count(trace.batches.size()) + " batches for 80 % or more of their time";
  // A reason with an attribute of its own is further down.
  const std::string why = model::WhyNoKernels(trace);
  if (!why.empty() && why != trace.AttributeOf("cupti.not_recorded")) text += "; " + model::InHostLanguage(trace, why);
  return text;
}

void AddRoutes(const Trace& trace, Lines* lines) {
  if (trace.requests.empty()) return;
  lines->Blank();
  lines->Add(0, PadRight("route", 36) + PadLeft("requests", 11) + PadLeft("ok", 9) + PadLeft("open", 8) +
                    PadLeft("p50", 12) + PadLeft("p99", 12) + PadLeft("slowest", 12));
  for (const auto& [name, route] : ByRoute(trace)) {
    const auto quantile = [&route = route](double q) {
      return route.latencies_ns.empty() ? std::string("-") : Duration(route.Quantile(q));
    };
    lines->Add(0, PadRight(name.empty() ? "(route unknown)" : name, 36) + PadLeft(Count(route.count), 11) +
                      PadLeft(Count(route.ok), 9) + PadLeft(Count(route.open), 8) + PadLeft(quantile(0.5), 12) +
                      PadLeft(quantile(0.99), 12) + PadLeft(quantile(1), 12));
  }
}

void AddThreads(const Trace& trace, Lines* lines) {
  if (trace.threads.empty()) return;
  lines->Blank();
  lines->Add(0, PadRight("thread", 36) + PadLeft("number", 8) + PadLeft("tid", 11) + PadLeft("events", 14) +
                    PadLeft("history", 12) + "  state");
  for (const model::ThreadRow& thread : trace.threads) {
    lines->Add(0, PadRight(Str(trace, thread.name), 36) + PadLeft(std::to_string(thread.number), 8) +
                      PadLeft(std::to_string(thread.tid), 11) + PadLeft(Count(thread.event_count), 14) +
                      PadLeft(Duration(trace.window_end_ns - thread.history_begin_ns), 12) +
                      (thread.exited ? "  exited" : "  alive"));
  }
}

void AddLosses(const Trace& trace, Lines* lines) {
  lines->Blank();
  if (trace.losses.empty() && trace.gpu_losses.empty())
    return lines->AddWrapped(
        0, "",
        model::AreLossesUnknown(trace) ? model::kLossesUnknown : "nothing was lost" + model::LostSamplesText(trace));
  lines->Add(0, PadRight("lost on thread", 36) + PadRight("why", 24) + PadLeft("from", 13) + PadLeft("to", 13) +
                    PadLeft("events", 14));
  for (const model::LossRow& loss : trace.losses) {
    lines->Add(0, PadRight(ThreadName(trace, loss.thread), 36) + PadRight(model::LossReasonName(loss.reason), 24) +
                      PadLeft(model::MomentText(trace, loss.begin_ns), 13) +
                      PadLeft(model::MomentText(trace, loss.end_ns), 13) +
                      PadLeft(loss.events == 0 ? "unknown" : Count(loss.events), 14));
  }
  for (const model::GpuLossRow& loss : trace.gpu_losses) {
    lines->Add(0, PadRight(LossName(trace, loss), 36) + PadRight(Str(trace, loss.reason), 24) +
                      PadLeft(model::MomentText(trace, loss.begin_ns), 13) +
                      PadLeft(model::MomentText(trace, loss.end_ns), 13) +
                      PadLeft(loss.records == 0 ? "unknown" : Count(loss.records), 14));
  }
}

// The note of `pitot recover` about the damaged dump behind this one; "" for other dumps.
std::string RecoveredFrom(const Trace& trace) { return std::string(trace.AttributeOf("recovered")); }

std::string Text(const std::string& path, const Trace& trace, const LoadReport& report) {
  Lines lines(WrapWidth(base::kColumns));
  const std::string recovered = RecoveredFrom(trace);
  const model::Parts parts(trace);
  lines.Add(0, (report.IsDump() && !parts.is_joined() ? "dump       " : "trace      ") + path);
  lines.AddWrapped(
      0, "format     ",
      (parts.is_joined() ? base::Plural(parts.size(), "file") + ", joined by their clocks" : FormatName(report)) +
          (!report.file.complete               ? ", damaged: only whole parts are shown"
           : !recovered.empty()                ? ", recovered " + recovered
           : model::IsLacking(trace, "losses") ? ", not damaged"
                                               : ", complete"));
  if (parts.is_joined()) lines.AddWrapped(0, "files      ", parts.FormatsText());
  if (!report.IsDump() && !parts.is_joined()) lines.Add(0, "written by " + report.file.tool);
  if (const std::string_view lacks = trace.AttributeOf(model::kNotRecorded); !lacks.empty())
    lines.AddWrapped(0, "lacks      ", std::string(lacks));
  // Other tools may give neither.
  const std::string process = Str(trace, trace.process_name);
  if (parts.is_joined())
    lines.AddWrapped(0, "processes  ", parts.ProcessesText());
  else
    lines.Add(0, "process    " + (trace.pid != 0
                                      ? (process.empty() ? "" : process + " ") + absl::StrFormat("(pid %d)", trace.pid)
                                  : process.empty() ? "(unknown)"
                                                    : process));
  lines.Add(0, "taken      " +
                   (model::HasDate(trace) ? base::DateTime(Realtime(trace, trace.clock.monotonic_ns)) : "(unknown)"));
  std::string span = Duration(trace.window_end_ns - trace.window_begin_ns);
  if (model::HasDate(trace))
    span +=
        ", " + model::MomentText(trace, trace.window_begin_ns) + " to " + model::MomentText(trace, trace.window_end_ns);
  lines.Add(0, "span       " + span);
  if (report.IsDump())
    lines.Add(0, std::string("clock      ") + (trace.clock.cycle_counter ? "cycle counter" : "operating system") +
                     ", converted within " + Duration(trace.clock.pair_width_ns));
  lines.Add(0, "holds      " + Count(trace.events.size()) + " events, " + Count(trace.requests.size()) + " requests, " +
                   Count(trace.batches.size()) + " batches, " + Count(trace.handoffs.size()) + " handoffs, " +
                   Count(trace.sites.size()) + " sites");
  if (HasGpuFacts(trace)) {
    lines.AddWrapped(0, "gpu        ",
                     Count(trace.devices.size()) + " devices, " + Count(trace.streams.size()) + " streams, " +
                         Count(trace.gpu.size()) + " GPU records, " + Count(trace.calls.size()) + " calls, " +
                         Count(trace.overheads.size()) + " overheads, " + Count(trace.depths.size()) + " depths, " +
                         Count(trace.counters.size()) + " counters, " + Count(trace.samples.size()) + " samples");
    lines.AddWrapped(0, "kernels    ", KernelText(trace));
  } else if (HasOwnCounters(trace)) {
    lines.Add(0, "counters   " + base::Plural(trace.counters.size(), "counter") + ", " +
                     base::Plural(trace.samples.size(), "sample"));
  }
  if (const report::HostReport host(trace); host.IsKnown()) host.Write(0, &lines);
  for (const model::FiringRow& firing : trace.firings) {
    lines.AddWrapped(
        0, "fired      ",
        model::MomentText(trace, firing.at_ns) + "  " + Str(trace, firing.cause) + ": " + Str(trace, firing.detail) +
            (firing.request_id != 0 ? " (request " + model::NameOfId(trace, firing.request_id) + ")" : ""));
  }
  AddRoutes(trace, &lines);
  AddThreads(trace, &lines);
  AddLosses(trace, &lines);
  if (!trace.attributes.empty()) lines.Blank();
  for (const model::Attribute& attribute : trace.attributes) {
    if (trace.strings[attribute.key].starts_with(model::kJoinedKey)) continue;  // above
    lines.AddWrapped(0, PadRight(Str(trace, attribute.key), 28) + " ", trace.strings[attribute.value]);
  }
  return lines.text();
}

// The reader's own counts.
ordered_json ReaderJson(const TraceReport& file) {
  ordered_json json = {{"tool", file.tool}, {"events", file.events}, {"bad", file.events_bad}, {"lacks", file.lacks}};
  for (const auto& [name, count] : file.counts) json[name] = count;
  return json;
}

ordered_json CountsJson(const Trace& trace) {
  return {{"events", trace.events.size()},     {"sites", trace.sites.size()},
          {"threads", trace.threads.size()},   {"requests", trace.requests.size()},
          {"batches", trace.batches.size()},   {"handoffs", trace.handoffs.size()},
          {"asyncs", trace.asyncs.size()},     {"tokens", trace.tokens.size()},
          {"firings", trace.firings.size()},   {"devices", trace.devices.size()},
          {"streams", trace.streams.size()},   {"gpu", trace.gpu.size()},
          {"calls", trace.calls.size()},       {"overheads", trace.overheads.size()},
          {"depths", trace.depths.size()},     {"gpu_losses", trace.gpu_losses.size()},
          {"counters", trace.counters.size()}, {"samples", trace.samples.size()}};
}

ordered_json FiringsJson(const Trace& trace) {
  ordered_json firings = ordered_json::array();
  for (const model::FiringRow& firing : trace.firings) {
    firings.push_back({{"at_ns", firing.at_ns},
                       {"request", firing.request_id != 0 ? base::RequestId(firing.request_id) : ""},
                       {"cause", Str(trace, firing.cause)},
                       {"detail", Str(trace, firing.detail)}});
  }
  return firings;
}

ordered_json RoutesJson(const Trace& trace) {
  ordered_json routes = ordered_json::array();
  for (const auto& [name, route] : ByRoute(trace)) {
    routes.push_back({{"route", name},
                      {"requests", route.count},
                      {"finished", route.latencies_ns.size()},
                      {"ok", route.ok},
                      {"open", route.open},
                      {"p50_ms", base::Ms(route.Quantile(0.5))},
                      {"p99_ms", base::Ms(route.Quantile(0.99))},
                      {"max_ms", base::Ms(route.Quantile(1))}});
  }
  return routes;
}

ordered_json ThreadsJson(const Trace& trace) {
  ordered_json threads = ordered_json::array();
  for (const model::ThreadRow& thread : trace.threads) {
    threads.push_back({{"number", thread.number},
                       {"tid", thread.tid},
                       {"name", Str(trace, thread.name)},
                       {"exited", thread.exited},
                       {"events", thread.event_count},
                       {"history_begin_ns", thread.history_begin_ns}});
  }
  return threads;
}

// Null if unknown.
ordered_json LossesJson(const Trace& trace) {
  if (model::AreLossesUnknown(trace)) return nullptr;
  ordered_json losses = ordered_json::array();
  for (const model::LossRow& loss : trace.losses) {
    losses.push_back({{"thread", loss.thread == kNone ? 0 : trace.threads[loss.thread].number},
                      {"reason", model::LossReasonName(loss.reason)},
                      {"begin_ns", loss.begin_ns},
                      {"end_ns", loss.end_ns},
                      {"events", loss.events},
                      {"bytes", loss.bytes}});
  }
  return losses;
}

ordered_json DevicesJson(const Trace& trace) {
  ordered_json devices = ordered_json::array();
  for (const model::DeviceRow& device : trace.devices)
    devices.push_back({{"ordinal", device.ordinal}, {"name", Str(trace, device.name)}});
  return devices;
}

ordered_json GpuLossesJson(const Trace& trace) {
  ordered_json losses = ordered_json::array();
  for (const model::GpuLossRow& loss : trace.gpu_losses) {
    losses.push_back(
        {{"stream", loss.stream == kNone ? "" : StreamName(trace, loss.stream)},
         {"device", loss.device == kNone ? ordered_json() : ordered_json(trace.devices[loss.device].ordinal)},
         {"reason", Str(trace, loss.reason)},
         {"begin_ns", loss.begin_ns},
         {"end_ns", loss.end_ns},
         {"records", loss.records}});
  }
  return losses;
}

// Null if unknown.
ordered_json KernelsJson(const Trace& trace) {
  const KernelTimes times = KernelTimesOf(trace);
  if (!times.is_known) return nullptr;
  return {{"recorded_ns", times.recorded_ns},
          {"without_losses_ns", times.whole_ns},
          {"batches_mostly_recorded", times.batches}};
}

ordered_json AttributesJson(const Trace& trace) {
  ordered_json attributes = ordered_json::object();
  for (const model::Attribute& attribute : trace.attributes) {
    attributes[Str(trace, attribute.key)] = Str(trace, attribute.value);
  }
  return attributes;
}

// The files of a joined trace.
ordered_json FilesJson(const model::Parts& parts) {
  ordered_json files = ordered_json::array();
  for (size_t i = 0; i < parts.size(); ++i) {
    files.push_back({{"name", parts[i].name},
                     {"format", parts[i].format},
                     {"process", {{"name", parts[i].process}, {"pid", parts[i].pid}}},
                     {"host", parts[i].host}});
  }
  return files;
}

std::string Json(const std::string& path, const Trace& trace, const LoadReport& report) {
  ordered_json info;
  info["file"] = path;
  info["format"] = report.file.format;
  info["version"] = report.IsDump() ? ordered_json(FormatName(report)) : ordered_json();
  info["complete"] = report.file.complete && RecoveredFrom(trace).empty();
  if (info["complete"] == true && model::IsLacking(trace, "losses")) info["complete"] = nullptr;
  if (!report.IsDump()) {
    info["json"] = ReaderJson(report.file);
  } else {
    const DumpReport& dump = report.file.dump;
    info["chunks"] = {{"read", dump.chunks}, {"bad", dump.chunks_bad}, {"unknown", dump.chunks_unknown}};
    info["bytes_skipped"] = dump.bytes_skipped;
  }
  info["process"] = {{"name", Str(trace, trace.process_name)}, {"pid", trace.pid}};
  if (const model::Parts parts(trace); parts.is_joined()) info["files"] = FilesJson(parts);
  const auto unix_ns = [&](int64_t ns) {
    return model::HasDate(trace) ? ordered_json(Realtime(trace, ns)) : ordered_json();
  };
  info["window"] = {{"begin_ns", trace.window_begin_ns},
                    {"end_ns", trace.window_end_ns},
                    {"begin_unix_ns", unix_ns(trace.window_begin_ns)},
                    {"end_unix_ns", unix_ns(trace.window_end_ns)}};
  info["clock"] = {{"cycle_counter", trace.clock.cycle_counter}, {"pair_width_ns", trace.clock.pair_width_ns}};
  info["counts"] = CountsJson(trace);
  info["firings"] = FiringsJson(trace);
  info["routes"] = RoutesJson(trace);
  info["threads"] = ThreadsJson(trace);
  info["losses"] = LossesJson(trace);
  info["devices"] = DevicesJson(trace);
  info["gpu_losses"] = GpuLossesJson(trace);
  info["kernels"] = KernelsJson(trace);
  info["attributes"] = AttributesJson(trace);
  return info.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

int PrintCounters(const InfoOptions& options, const Trace& trace) {
  uint64_t id = 0;
  if (const int found = FindId(trace, options.request, options.input, &id); found != kDone) return found;
  uint32_t request = kNone;
  for (uint32_t row = 0; id != 0 && row < trace.requests.size(); ++row) {
    if (trace.requests[row].id == id) request = row;
  }
  Print(options.json ? CountersJson(trace, request).dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n"
                     : CountersText(trace, request));
  const bool has_gpu = !trace.devices.empty() || !GpuStateCounters(trace).empty();
  return has_gpu ? kDone : kNothingFound;
}

int Info(const InfoOptions& options) {
  Trace trace;
  LoadReport report;
  const int loaded = Load(options.inputs, &trace, &report);
  if (loaded != kDone && loaded != kDamaged) return loaded;
  if (options.counters) return ExitCodeOf(loaded, PrintCounters(options, trace));
  Print(options.json ? Json(options.input, trace, report) : Text(options.input, trace, report));
  return loaded;
}

}  // namespace

void AddInfo(CommandLine& line) {
  auto options = std::make_shared<InfoOptions>();
  const Command command = line.Command("info", "Summarizes a dump: span, threads, requests, losses");
  command.Add("dump", &options->inputs, std::string(kDumpHelp) + kSeveralHelp).Required();
  const Option counters = command.AddFlag(
      "--counters", &options->counters,
      "In place of that the counters of each GPU: least, median and most of the window, and during the slow request");
  command
      .Add("--request", &options->request,
           "The request with this id (the server's own or Pitot's), or with the only id that begins so. By default the "
           "first that fired a trigger, "
           "otherwise the slowest")
      .Check(IsSomeId)
      .Needs(counters);
  command.AddFlag("--json", &options->json, "For programs: docs/reference/cli.md");
  command.Run([options] {
    options->input = DumpPaths(&options->inputs);
    return Info(*options);
  });
}

}  // namespace pitot::cli
