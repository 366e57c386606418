// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/why.h"

#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_set>

#include "CLI/CLI.hpp"
#include "base/columns.h"
#include "cli/command.h"
#include "cli/files.h"
#include "cli/judge.h"
#include "pitot/analyze/verdict.h"

namespace pitot::cli {
namespace {

using analyze::BlameIndex;
using analyze::Cause;
using analyze::RequestBlame;
using analyze::Verdict;
using model::kNone;
using model::Trace;
using nlohmann::ordered_json;

struct WhyArguments {
  std::string input, request;
  bool every = false;
  bool json = false;
};

std::string Name(const Trace& trace, model::StringId id) { return std::string(trace.strings[id]); }

// Rows become what tells them from outside: ids, names.
ordered_json By(const Trace& trace, const analyze::Culprit& by) {
  if (!by.IsKnown()) return nullptr;
  ordered_json one = ordered_json::object();
  if (by.thread != kNone) one["thread"] = Name(trace, trace.threads[by.thread].name);
  if (by.request != kNone) {
    one["request"] = base::RequestId(trace.requests[by.request].id);
    one["route"] = Name(trace, trace.requests[by.request].route);
  }
  if (by.batch != kNone) {
    const model::BatchRow& batch = trace.batches[by.batch];
    one["batch"] = base::RequestId(batch.id);
    one["executor"] = Name(trace, batch.executor);
    ordered_json members = ordered_json::array();
    for (uint32_t m = batch.first_member; m < batch.first_member + batch.member_count; ++m) {
      if (trace.members[m].request != kNone)
        members.push_back(base::RequestId(trace.requests[trace.members[m].request].id));
    }
    one["requests"] = std::move(members);
  }
  if (by.event != kNone) one["event"] = std::string(trace.EventName(by.event));
  if (by.gpu != kNone) one["gpu"] = Name(trace, trace.gpu.name[by.gpu]);
  return one;
}

ordered_json SegmentJson(const Trace& trace, const RequestBlame& blame, const analyze::BlameSegment& segment) {
  ordered_json one = {{"begin_ns", segment.begin_ns - blame.begin_ns},
                      {"duration_ns", segment.end_ns - segment.begin_ns},
                      {"blame", BlameName(segment.blame)}};
  if (segment.thread != kNone) one["thread"] = Name(trace, trace.threads[segment.thread].name);
  if (segment.event != kNone) one["event"] = std::string(trace.EventName(segment.event));
  if (segment.call != kNone) one["call"] = Name(trace, trace.calls.name[segment.call]);
  if (segment.gpu != kNone) one["gpu"] = Name(trace, trace.gpu.name[segment.gpu]);
  if (segment.handoff != kNone) one["queue"] = Name(trace, trace.handoffs[segment.handoff].queue);
  if (segment.batch != kNone) one["batch"] = base::RequestId(trace.batches[segment.batch].id);
  if (segment.by.IsKnown()) one["by"] = By(trace, segment.by);
  return one;
}

ordered_json Parts(const analyze::BlameVector& blame) {
  ordered_json parts = ordered_json::object();
  for (uint32_t k = 0; k < analyze::kBlames; ++k) {
    if (blame.ns[k] != 0) parts[BlameName(static_cast<analyze::Blame>(k))] = blame.ns[k];
  }
  return parts;
}

std::string Json(const Trace& trace, const BlameIndex& index, const RequestBlame& blame, const Verdict& verdict,
                 int indent) {
  const auto causes = [&](const std::vector<Cause>& of) {
    ordered_json all = ordered_json::array();
    for (const Cause& cause : of) {
      all.push_back({{"blame", BlameName(cause.blame)},
                     {"blame_ns", cause.blame_ns},
                     {"normal_ns", cause.normal_ns},
                     {"excess_ns", cause.excess_ns},
                     {"share", cause.share},
                     {"p", cause.p},
                     {"confidence", cause.confidence},
                     {"saving_ns", cause.saving_ns},
                     {"by", By(trace, cause.by)},
                     {"by_ns", cause.by_ns},
                     {"evidence", EvidenceText(index, blame, cause)},
                     {"segments", cause.longest},
                     {"advice", {{"code", cause.advice.code}, {"text", cause.advice.text}}}});
    }
    return all;
  };
  const model::RequestRow& row = trace.requests[blame.request];
  ordered_json document;
  document["request"] = base::RequestId(row.id);
  document["route"] = Name(trace, row.route);
  document["is_open"] = row.duration_ns == model::kOpen;
  document["verdict"] = VerdictKindName(verdict.kind);
  document["why_not"] = verdict.why_not.empty() ? ordered_json() : ordered_json(verdict.why_not);
  document["latency_ns"] = verdict.latency_ns;
  document["typical_ns"] = verdict.typical_ns;
  document["percentile"] = verdict.percentile;
  document["baseline"] = {{"level", LevelName(verdict.level)},
                          {"requests", verdict.baseline_size},
                          {"alpha", verdict.alpha},
                          {"least_p", verdict.least_p}};
  if (!verdict.more_of.empty()) document["more_work"] = {{"of", verdict.more_of}, {"factor", verdict.more_factor}};
  document["common_factor"] = verdict.common_factor;
  document["common_ns"] = verdict.common_ns;
  document["causes"] = causes(verdict.causes);
  document["largest"] = causes(verdict.largest);
  document["joint_saving_ns"] = verdict.joint_saving_ns;
  document["rest_ns"] = verdict.rest_ns;
  document["blame_ns"] = Parts(blame.blame);
  document["normal_ns"] = Parts(verdict.normal);
  ordered_json segments = ordered_json::array();
  for (const analyze::BlameSegment& segment : blame.segments) segments.push_back(SegmentJson(trace, blame, segment));
  document["segments"] = std::move(segments);
  document["quality"] = {{"reliable", blame.is_reliable},
                         {"losses", blame.losses},
                         {"clamps", blame.clamps},
                         {"clamped_ns", blame.clamped_ns}};
  return document.dump(indent, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

// A line of JSON for each request that began and ended; parts of requests have none of their own.
int WhyEach(const Trace& trace, int loaded) {
  BlameIndex index;
  if (const Status status = BlameIndex::Make(trace, analyze::BlameOptions(), &index); !status.ok()) {
    Complain(status.message());
    return kUnreadable;
  }
  std::unordered_set<uint64_t> ids;
  for (const model::RequestRow& request : trace.requests) ids.insert(request.id);
  bool is_empty = true;
  for (uint32_t row = 0; row < trace.requests.size(); ++row) {
    const model::RequestRow& request = trace.requests[row];
    if (!request.begin_known || !request.end_known || ids.count(request.parent_id) != 0) continue;
    RequestBlame blame;
    Verdict verdict;
    if (const Status status = Judge(trace, index, row, &blame, &verdict); !status.ok()) {
      Complain("request " + base::RequestId(request.id) + ": " + status.message());
      return kUnreadable;
    }
    Print(Json(trace, index, blame, verdict, -1));
    is_empty = false;
  }
  if (is_empty) Complain("no request that began and ended is in the dump");
  return is_empty && loaded == kDone ? kNothingFound : loaded;
}

int Why(const WhyArguments& arguments) {
  uint64_t id = 0;
  if (!arguments.request.empty()) {
    const char* const end = arguments.request.data() + arguments.request.size();
    const auto [read, error] = std::from_chars(arguments.request.data(), end, id, 16);
    if (error != std::errc() || read != end || id == 0) {
      Complain("--request: " + arguments.request + " is no request's id, which are hexadecimal: `pitot requests`");
      return kUsage;
    }
  }
  Trace trace;
  LoadReport report;
  const int loaded = Load(arguments.input, &trace, &report);
  if (loaded != kDone && loaded != kDamaged) return loaded;
  if (arguments.every) return WhyEach(trace, loaded);
  const int none = loaded == kDamaged ? kDamaged : kNothingFound;
  const uint32_t row = ChooseRequest(trace, id);
  if (row == kNone) {
    Complain(id != 0 ? "no request " + base::RequestId(id) + " is in " + arguments.input
                     : "no request that began and ended is in " + arguments.input);
    return none;
  }
  Judgement judgement;
  if (const Status status = Judge(trace, row, &judgement); !status.ok()) {
    Complain(status.message());
    return status.code() == StatusCode::kNotFound ? none : kUnreadable;
  }
  const auto& [index, blame, verdict] = judgement;
  Print(arguments.json ? Json(trace, index, blame, verdict, 2) : VerdictText(index, blame, verdict));
  return loaded;
}

}  // namespace

void AddWhy(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<WhyArguments>();
  CLI::App* command =
      app.add_subcommand("why", "Says why a request was slow: what was not normal, by how much, whose fault");
  command->add_option("dump", arguments->input, kDumpHelp)->required();
  command->add_option("--request", arguments->request,
                      "The request with this id; else the one that a trigger fired for, else the slowest");
  CLI::Option* const json = command->add_flag("--json", arguments->json, "For programs, in whole ns: docs/cli.md");
  command->add_flag("--every", arguments->every, "A line for every request that began and ended; with --json")
      ->needs(json)
      ->excludes("--request");
  command->callback([arguments, &exit_code] {
    arguments->input = DumpPath(arguments->input);
    exit_code = Why(*arguments);
  });
}

}  // namespace pitot::cli
