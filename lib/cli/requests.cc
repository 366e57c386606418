// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/columns.h"
#include "base/gpu_counters.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/files.h"
#include "model/held.h"
#include "model/host_language.h"
#include "model/lacking.h"
#include "model/moment.h"
#include "model/recorded.h"
#include "model/request_text.h"
#include "pitot/model/index.h"
#include "pitot/model/intervals.h"

namespace pitot::cli {
namespace {

using base::Duration;
using base::Lines;
using base::PadLeft;
using base::PadRight;
using base::RequestId;
using model::kOpen;
using model::RequestRow;
using model::Trace;
using nlohmann::ordered_json;

struct RequestsOptions {
  std::vector<std::string> inputs;  // `input`: their names, for messages
  std::string input, outcome, sort = "latency";
  std::optional<std::string> route;
  int64_t limit = 20;
  bool fired = false;
  bool json = false;
};

// For a hand-over whose end is lost or may precede the window, and for partly recorded GPU time.
constexpr int64_t kNotKnown = -1;

struct Row {
  const RequestRow* request;
  int64_t latency_ns;
  int64_t queue_ns;  // kNotKnown
  int64_t gpu_ns;    // kNotKnown
  int64_t gpu_by_events_ns;
  std::optional<double> sampled;  // share of its time
  model::KernelCoverage coverage;
  std::vector<model::MemoryPeak> memory;
  std::vector<uint64_t> batch_ids;
  std::string outcome;
  bool is_whole = false;
  const std::vector<model::StringId>* causes = nullptr;  // of the triggers of the incident that it fired
};

// The causes of firings, each once, by request.
using Causes = std::unordered_map<uint64_t, std::vector<model::StringId>>;
Causes CausesOf(const Trace& trace) {
  Causes all;
  for (const model::FiringRow& firing : trace.firings) {
    std::vector<model::StringId>& causes = all[firing.request_id];
    if (std::find(causes.begin(), causes.end(), firing.cause) == causes.end()) causes.push_back(firing.cause);
  }
  return all;
}

// When hardware counters of all GPUs with such counters were read; nothing: of none.
std::optional<model::Intervals> SampledTimes(const Trace& trace) {
  std::optional<model::Intervals> all;
  for (uint32_t row = 0; row < trace.counters.size(); ++row) {
    if (trace.strings[trace.counters[row].name] != base::NameOf(base::GpuCounter::kSampled)) continue;
    std::vector<model::Interval> times;
    for (const model::Held& held : ValuesOf(trace, row, model::kHoldsOnNs)) {
      if (held.value != 0) times.push_back(held.when);
    }
    const model::Intervals one = model::Union(std::move(times));
    all = all ? model::Intersection(*all, one) : one;
  }
  return all;
}

// The share of a request's time in `times`.
double ShareIn(const model::Intervals& times, const Trace& trace, const RequestRow& request) {
  const int64_t begin_ns = request.begin_ns, end_ns = std::max(trace.RequestEnd(request), begin_ns + 1);
  const auto first = std::partition_point(times.begin(), times.end(),
                                          [&](const model::Interval& one) { return one.end_ns <= begin_ns; });
  int64_t ns = 0;
  for (auto at = first; at != times.end() && at->begin_ns < end_ns; ++at)
    ns += std::min(at->end_ns, end_ns) - std::max(at->begin_ns, begin_ns);
  return static_cast<double>(ns) / static_cast<double>(end_ns - begin_ns);
}

// Whether no event of the request's time was lost.
bool IsAllRecorded(const Trace& trace, const RequestRow& request) {
  return std::none_of(trace.losses.begin(), trace.losses.end(), [&](const model::LossRow& loss) {
    return loss.reason != model::LossReason::kOpenRequests && loss.begin_ns < trace.RequestEnd(request) &&
           loss.end_ns > request.begin_ns;
  });
}

// All the displayed data about a trace's requests.
struct Rows {
  bool has_gpu = false, is_damaged = false;
  Causes causes;
  std::vector<Row> rows;
};

Row MakeRow(const Trace& trace, const model::RequestIndex& index, const Causes& causes, uint32_t row) {
  const RequestRow& request = trace.requests[row];
  Row made{
      &request, trace.RequestEnd(request) - request.begin_ns, 0, 0, 0, {}, {}, {}, {}, model::OutcomeText(request)};
  bool is_known = request.begin_known && request.begin_ns >= trace.window_begin_ns;
  for (const uint32_t handoff_row : index.Handoffs(row)) {
    const model::HandoffRow& handoff = trace.handoffs[handoff_row];
    is_known &= handoff.take_ns != 0 || !request.end_known;
    made.queue_ns += (handoff.take_ns == 0 ? trace.RequestEnd(request) : handoff.take_ns) - handoff.enqueue_ns;
  }
  is_known &= !model::IsLacking(trace, "queues");
  if (!is_known) made.queue_ns = kNotKnown;
  made.is_whole = is_known && request.end_known && IsAllRecorded(trace, request) && !model::IsLacking(trace, "losses");
  for (const uint32_t batch : index.Batches(row)) made.batch_ids.push_back(trace.batches[batch].id);
  const auto fired = causes.find(request.id);
  if (fired != causes.end()) made.causes = &fired->second;
  return made;
}

Rows Select(const Trace& trace, const RequestsOptions& options) {
  const model::RequestIndex index(trace);
  const model::GpuTime gpu_time(trace);
  const model::CoverageIndex coverage(trace);
  const model::CounterIndex counters(trace);
  const std::optional<model::Intervals> sampled = SampledTimes(trace);
  Rows selected{coverage.HasGpu(), coverage.IsDamaged(), CausesOf(trace), {}};
  std::vector<Row>& rows = selected.rows;
  for (uint32_t row = 0; row < trace.requests.size(); ++row) {
    if (options.route && trace.strings[trace.requests[row].route] != *options.route) continue;
    Row made = MakeRow(trace, index, selected.causes, row);
    made.coverage = coverage.Of(index, row);
    made.gpu_ns = gpu_time.Request(row);
    if (made.gpu_ns == 0 && !made.coverage.IsWhole()) made.gpu_ns = kNotKnown;
    made.memory = model::MemoryPeaksOf(trace, index, counters, row);
    made.gpu_by_events_ns = gpu_time.RequestByEvents(row);
    if (sampled) made.sampled = ShareIn(*sampled, trace, trace.requests[row]);
    if (options.fired && made.causes == nullptr) continue;
    if (!options.outcome.empty() && made.outcome != options.outcome) continue;
    rows.push_back(std::move(made));
  }
  std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
    if (options.sort == "begin") return a.request->begin_ns < b.request->begin_ns;
    if (options.sort == "gpu") return a.gpu_ns > b.gpu_ns;
    return options.sort == "queue" ? a.queue_ns > b.queue_ns : a.latency_ns > b.latency_ns;
  });
  return selected;
}

int64_t StageNs(const Trace& trace, const RequestRow& request, const model::Stage& stage) {
  return stage.duration_ns == kOpen ? trace.RequestEnd(request) - stage.begin_ns : stage.duration_ns;
}

// GPU time that includes gaps between kernels is an upper bound.
bool IsAtMost(const Row& row) { return row.gpu_ns != kNotKnown && row.gpu_by_events_ns != 0; }
std::string GpuText(const Row& row) {
  if (row.gpu_ns == kNotKnown) return "-";
  return (IsAtMost(row) ? "<=" : "") + Duration(row.gpu_ns);
}

// The number of hidden rows that fired; "" if none did.
std::string FiredText(std::vector<Row>::const_iterator begin, std::vector<Row>::const_iterator end) {
  int64_t fired = 0, slowest_ns = 0;
  for (auto row = begin; row != end; ++row) {
    if (row->causes == nullptr) continue;
    ++fired;
    slowest_ns = std::max(slowest_ns, row->latency_ns);
  }
  if (fired == 0) return "";
  if (fired == 1) return "1 fired request is not shown, of " + Duration(slowest_ns) + ": --fired shows it";
  return absl::StrFormat("%d fired requests are not shown, the slowest of %s: --fired shows them", fired,
                         Duration(slowest_ns));
}

// "-": it waited in no queue.
std::string QueueText(const Row& row) {
  if (row.queue_ns == 0) return "-";
  return row.queue_ns > 0 ? Duration(row.queue_ns) : "?";
}

std::string StagesText(const Trace& trace, const RequestRow& request) {
  std::string stages;
  for (const model::Stage& stage : request.stages) {
    stages += (stages.empty() ? "" : ", ") + std::string(trace.strings[stage.name]) + " " +
              Duration(StageNs(trace, request, stage));
  }
  return stages;
}

void AddRow(const Trace& trace, const Row& row, bool has_gpu, size_t route_width, Lines* lines) {
  const RequestRow& request = *row.request;
  lines->Add(0, (row.causes != nullptr ? "*" : " ") + PadLeft(Duration(row.latency_ns), 9) +
                    PadLeft(QueueText(row), 11) + (has_gpu ? PadLeft(GpuText(row), 11) : "") + "  " +
                    PadRight(row.outcome, 11) + "  " + PadRight(trace.strings[request.route], route_width) + "  " +
                    RequestId(request.id) + "  " + (request.begin_known ? "" : "<") +
                    model::MomentText(trace, request.begin_ns));
  if (request.host_id != 0) lines->AddWrapped(12, "", std::string(trace.strings[request.host_id]));
  if (request.reason != 0) lines->AddWrapped(12, "", std::string(trace.strings[request.reason]));
  if (const std::string stages = StagesText(trace, request); !stages.empty()) lines->AddWrapped(12, "", stages);
}

// The legend of the marks, and the data that the table lacks.
void AddNotes(const Trace& trace, const Rows& selected, size_t shown, Lines* lines) {
  const std::vector<Row>& rows = selected.rows;
  const auto shown_end = rows.begin() + static_cast<std::ptrdiff_t>(shown);
  const auto add = [&](const std::string& note) {
    lines->Blank();
    lines->Add(0, note);
  };
  if (std::any_of(rows.begin(), shown_end, [](const Row& row) { return row.causes != nullptr; }))
    add("* fired a trigger of this incident; see pitot info");
  if (const std::string text = FiredText(shown_end, rows.end()); !text.empty()) {
    lines->Blank();
    lines->AddWrapped(0, "", text);
  }
  if (selected.has_gpu && std::any_of(rows.begin(), shown_end, IsAtMost))
    add("<= at most: by CUDA events, with the gaps between kernels");
  const std::string why = model::WhyNoKernels(trace);
  if (selected.has_gpu && !why.empty() &&
      std::any_of(rows.begin(), shown_end, [](const Row& row) { return row.gpu_ns == kNotKnown; })) {
    lines->Blank();
    lines->AddWrapped(0, "- not known: ", "kernels were not recorded: " + model::InHostLanguage(trace, why));
  }
  if (selected.has_gpu && selected.is_damaged)
    add("the dump is damaged: GPU times are incomplete, and the missing part is not known");
  if (shown < rows.size()) add(absl::StrFormat("%d of %d requests; --limit 0 shows all", shown, rows.size()));
}

std::string Table(const Trace& trace, const Rows& selected, size_t shown) {
  const bool has_gpu = selected.has_gpu;
  const size_t route_width = has_gpu ? 19 : 30;
  Lines lines(WrapWidth(base::kColumns));
  lines.Add(0, PadLeft("latency", 10) + PadLeft("queue", 11) + (has_gpu ? PadLeft("gpu", 11) : "") + "  " +
                   PadRight("outcome", 11) + "  " + PadRight("route", route_width) + "  " + PadRight("request", 16) +
                   "  " + "arrived");
  for (size_t i = 0; i < shown; ++i) AddRow(trace, selected.rows[i], has_gpu, route_width, &lines);
  AddNotes(trace, selected, shown, &lines);
  return lines.text();
}

// Null if unknown.
ordered_json GpuNs(const Row& row, int64_t ns) { return row.gpu_ns == kNotKnown ? ordered_json() : ordered_json(ns); }
// The covered share; null if unknown.
ordered_json CoverageOf(const model::KernelCoverage& coverage) {
  if (!coverage.is_known) return {};
  return static_cast<double>(coverage.covered_ns) / static_cast<double>(coverage.ran_ns);
}

ordered_json SizesJson(const Trace& trace, const RequestRow& request) {
  ordered_json sizes = ordered_json::object();
  for (const model::Size& size : request.sizes) sizes[std::string(trace.strings[size.name])] = size.value;
  return sizes;
}

ordered_json LabelsJson(const Trace& trace, const RequestRow& request) {
  ordered_json labels = ordered_json::object();
  for (const model::Label& label : request.labels) {
    labels[std::string(trace.strings[label.key])] = std::string(trace.strings[label.value]);
  }
  return labels;
}

ordered_json StagesJson(const Trace& trace, const RequestRow& request) {
  ordered_json stages = ordered_json::array();
  for (const model::Stage& stage : request.stages) {
    stages.push_back({{"name", std::string(trace.strings[stage.name])},
                      {"begin_ms", base::Ms(stage.begin_ns - request.begin_ns)},
                      {"ms", base::Ms(StageNs(trace, request, stage))}});
  }
  return stages;
}

// Null if it has none.
ordered_json TokensJson(const RequestRow& request) {
  if (request.output_tokens == 0) return {};
  return {{"count", request.output_tokens},
          {"first_ms", base::Ms(request.first_token_ns)},
          {"longest_gap_ms", base::Ms(request.max_token_gap_ns)}};
}

ordered_json FiredJson(const Trace& trace, const Row& row) {
  ordered_json fired = ordered_json::array();
  if (row.causes == nullptr) return fired;
  for (const model::StringId cause : *row.causes) fired.push_back(std::string(trace.strings[cause]));
  return fired;
}

ordered_json MemoryJson(const Trace& trace, const Row& row) {
  ordered_json memory = ordered_json::array();
  for (const model::MemoryPeak& peak : row.memory) {
    const model::CounterRow& counter = trace.counters[peak.counter];
    const bool is_gpu = counter.device != model::kNone;
    memory.push_back({{"allocator", std::string(trace.strings[counter.name])},
                      {"gpu", is_gpu ? ordered_json(trace.devices[counter.device].ordinal) : ordered_json()},
                      {"most_bytes", peak.most_bytes},
                      {"before_bytes", peak.before_bytes}});
  }
  return memory;
}

ordered_json RowJson(const Trace& trace, const Row& row, bool has_gpu) {
  const RequestRow& request = *row.request;
  std::vector<std::string> batch_ids;
  for (const uint64_t id : row.batch_ids) batch_ids.push_back(RequestId(id));
  return {{"id", RequestId(request.id)},
          {"host_id", std::string(trace.strings[request.host_id])},
          {"trace_id", RequestId(request.trace_id_high) + RequestId(request.trace_id_low)},
          {"route", std::string(trace.strings[request.route])},
          {"outcome", row.outcome},
          {"reason", std::string(trace.strings[request.reason])},
          {"begin_ns", request.begin_ns},
          {"latency_ms", base::Ms(row.latency_ns)},
          {"queue_ms", row.queue_ns == kNotKnown ? ordered_json() : ordered_json(base::Ms(row.queue_ns))},
          {"gpu_ns", has_gpu ? GpuNs(row, row.gpu_ns) : ordered_json()},
          {"gpu_by_events_ns", has_gpu ? GpuNs(row, row.gpu_by_events_ns) : ordered_json()},
          {"coverage", has_gpu ? CoverageOf(row.coverage) : ordered_json()},
          {"sampled", row.sampled ? ordered_json(*row.sampled) : ordered_json()},
          {"memory", MemoryJson(trace, row)},
          {"deadline_ms", request.deadline_ns == 0 ? ordered_json() : ordered_json(base::Ms(request.deadline_ns))},
          {"parent_id", request.parent_id == 0 ? ordered_json() : ordered_json(RequestId(request.parent_id))},
          {"tokens", TokensJson(request)},
          {"fired", FiredJson(trace, row)},
          {"batch_ids", std::move(batch_ids)},
          {"sizes", SizesJson(trace, request)},
          {"labels", LabelsJson(trace, request)},
          {"stages", StagesJson(trace, request)},
          {"complete", row.is_whole}};
}

std::string Json(const Trace& trace, const Rows& selected, size_t shown) {
  ordered_json requests = ordered_json::array();
  for (size_t i = 0; i < shown; ++i) requests.push_back(RowJson(trace, selected.rows[i], selected.has_gpu));
  ordered_json document;
  document["requests"] = std::move(requests);
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

int Requests(const RequestsOptions& options) {
  Trace trace;
  LoadReport report;
  const int loaded = Load(options.inputs, &trace, &report);
  if (loaded != kDone && loaded != kDamaged) return loaded;

  const Rows selected = Select(trace, options);
  const std::vector<Row>& rows = selected.rows;
  const size_t shown = options.limit == 0 ? rows.size() : std::min(rows.size(), static_cast<size_t>(options.limit));
  if (options.json) {
    Print(Json(trace, selected, shown));
  } else if (!rows.empty()) {
    Print(Table(trace, selected, shown));
  }
  if (rows.empty()) {
    Complain(
        trace.requests.empty()
            ? absl::StrFormat("there are no requests in %s: %s `pitot analyze` and `pitot top` work without requests.",
                              options.input,
                              HowToRecord(report, "request", "Request::Begin records them (docs/guide/instrument.md)."))
            : absl::StrFormat("none of the %d requests of %s matches. `pitot info` lists the routes.",
                              trace.requests.size(), options.input));
    return ExitCodeOf(loaded, kNothingFound);
  }
  return loaded;
}

}  // namespace

void AddRequests(CommandLine& line) {
  auto options = std::make_shared<RequestsOptions>();
  const Command command =
      line.Command("requests", "Lists the requests of a dump with their queue and GPU time, slowest first");
  command.Add("dump", &options->inputs, std::string(kDumpHelp) + kSeveralHelp).Required();
  command.Add("--limit", &options->limit, "Number of requests; 0 shows all").Whole(0, 1000000000).ShowDefault();
  command.Add("--route", &options->route, "Only this route");
  command.Add("--outcome", &options->outcome, "Only this outcome")
      .OneOf({"ok", "failed", "cancelled", "timed_out", "shed", "abandoned", "open", "end unknown"});
  command.Add("--sort", &options->sort, "Sort by").OneOf({"latency", "queue", "gpu", "begin"}).ShowDefault();
  command.AddFlag("--fired", &options->fired, "Only requests with a fired trigger of the incident");
  command.AddFlag("--json", &options->json, "For programs: docs/reference/cli.md");
  command.Footer(
      "Marks: * a request that fired a trigger of the incident; <= an upper bound of a GPU time\n"
      "(by CUDA events); - an unknown GPU time; < an upper bound of the time of arrival.\n"
      "Exit codes: 1 no request matches; see `pitot --help` for others.");
  command.Run([options] {
    options->input = DumpPaths(&options->inputs);
    return Requests(*options);
  });
}

}  // namespace pitot::cli
