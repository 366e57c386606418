// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/analyze.h"
#include "model/is_empty.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/columns.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/files.h"
#include "model/host_language.h"
#include "model/kernel_name.h"
#include "model/lacking.h"
#include "model/recorded.h"
#include "peers/catalogue.h"

namespace pitot::cli {
namespace {

using analyze::AnalysisReport;
using analyze::AnalyzeOptions;
using analyze::AnalyzerReport;
using analyze::EvidenceRow;
using analyze::FindingRow;
using analyze::MeasureRow;
using base::Lines;
using base::PadLeft;
using base::PadRight;
using nlohmann::ordered_json;

using MakeAnalyzers = std::vector<std::unique_ptr<Analyzer>> (*)();
const std::map<std::string, MakeAnalyzers> kCompats = {{"pitot", analyze::MakeCatalogue},
                                                       {"hta", peers::MakeHtaCatalogue},
                                                       {"tracelens", peers::MakeTraceLensCatalogue},
                                                       {"tbplugin", peers::MakeTbPluginCatalogue}};

struct AnalyzeArguments {
  std::vector<std::string> inputs;  // `input`: their names, for messages
  std::string input, compat = "pitot", only;
  std::vector<std::string> settings;  // "a04.idle_share=0.2"
  double budget_ms = 2000;
  bool is_all = false, json = false;
};

const char* SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kInfo:
      return "info";
    case Severity::kLow:
      return "low";
    case Severity::kMedium:
      return "medium";
    case Severity::kHigh:
      return "high";
  }
  return "info";
}

constexpr const char* kNotRecorded = "not recorded";
// What records the values that are not there.
std::string WhyNotRecorded(const model::Trace& trace) {
  if (const std::string_view lacks = trace.AttributeOf(model::kNotRecorded); !lacks.empty())
    return "the file's format says nothing about " + std::string(lacks);
  return model::InHostLanguage(trace,
                               "no kernels, copies and launches were recorded: Recorder::SetDepth(kKernels) with the "
                               "CUPTI collector records them");
}

std::string WithUnit(double value, const std::string& unit) {
  if (std::isnan(value)) return kNotRecorded;
  if (unit == "ns") return base::Duration(static_cast<int64_t>(std::clamp(value, -9e18, 9e18)));
  if (unit == "bytes") return base::Bytes(static_cast<uint64_t>(std::clamp(value, 0.0, 9e18)));
  return base::Format("%.6g", value) + (unit == "1" ? "" : " " + unit);
}

void AddFinding(const AnalyzeArguments& arguments, const FindingRow& finding, Lines* lines) {
  lines->AddWrapped(0, PadRight(SeverityName(finding.severity), 7) + finding.code + "  ",
                    finding.subject + ": " + finding.summary);
  const std::string judged = finding.metric + " is " + WithUnit(finding.value, finding.threshold.unit) +
                             ", threshold " + WithUnit(finding.threshold.value, finding.threshold.unit) + " (" +
                             finding.threshold.source + ")";
  lines->AddWrapped(7, "", judged);
  std::string sure = base::Format("confidence %.2f", finding.confidence);
  if (finding.is_undetermined) sure += ", undetermined: the trace does not show the cause";
  if (finding.cost_ns != 0) sure += "; costs " + base::Duration(finding.cost_ns) + " of the window";
  lines->AddWrapped(7, "", sure);
  if (finding.of_measured != 0)
    lines->AddWrapped(7, "",
                      base::Format("precision %.2f: %u of %u such findings were true in runs with known faults",
                                   finding.precision, finding.right_in, finding.of_measured));
  const bool is_claim = !finding.is_undetermined && finding.severity != Severity::kInfo;
  if (arguments.is_all && is_claim && finding.of_measured == 0)
    lines->AddWrapped(7, "", "precision not measured in runs with known faults");
  for (const std::string& caveat : finding.caveats) lines->AddWrapped(7, "but ", caveat);
  for (const analyze::Contradiction& other : finding.contradictions)
    lines->AddWrapped(7, "but ", "contradicted by " + other.code + " of " + other.subject + ": " + other.why);
  if (finding.repeats != 0)
    lines->AddWrapped(7, "", "and " + base::Plural(finding.repeats, "lesser finding") + " like it");
  lines->AddWrapped(7, "", "-> " + finding.recommendation);
}

// Whether the row only says that GPUs and their API did nothing.
bool IsOfIdleGpus(const MeasureRow& measure) {
  static constexpr absl::string_view kOfGpus[] = {"compute",
                                                  "communication",
                                                  "memcpy",
                                                  "memset",
                                                  "synchronization",
                                                  "allocation",
                                                  "api",
                                                  "loader",
                                                  "busy",
                                                  "launches",
                                                  "shorter_than_call",
                                                  "slow_calls",
                                                  "slow_launches",
                                                  "launches_a_request"};
  return (measure.value == 0 || std::isnan(measure.value)) &&
         std::find(std::begin(kOfGpus), std::end(kOfGpus), measure.name) != std::end(kOfGpus);
}

// The findings to print, the gravest first.
std::vector<const FindingRow*> Printed(const AnalyzeArguments& arguments, const AnalysisReport& report) {
  std::vector<const FindingRow*> findings = report.Ranked();
  if (arguments.is_all || arguments.compat != "pitot") return findings;
  findings.erase(std::remove_if(findings.begin(), findings.end(), [](const auto* one) { return one->IsSilent(); }),
                 findings.end());
  return findings;
}

// Without GPUs, rows of their idleness are left out, and a line says so.
std::string Text(const AnalyzeArguments& arguments, const model::Trace& trace, const AnalysisReport& report,
                 bool has_gpus) {
  Lines lines(WrapWidth(base::kColumns));
  const std::vector<const FindingRow*> findings = Printed(arguments, report);
  lines.Add(
      0, absl::StrFormat("window %s, %s, %s", base::Duration(report.window_ns),
                         base::Plural(report.analyzers.size(), "analyzer"), base::Plural(findings.size(), "finding")));
  for (const AnalyzerReport& analyzer : report.analyzers) {
    if (!analyzer.status.ok())
      lines.AddWrapped(0, analyzer.name + " (" + analyzer.title + ") gave no answer: ", analyzer.status.message());
  }
  for (const FindingRow* finding : findings) {
    lines.Blank();
    AddFinding(arguments, *finding, &lines);
  }
  if (const size_t silent = report.Ranked().size() - findings.size(); silent != 0) {
    lines.Blank();
    lines.AddWrapped(0, "",
                     base::Plural(silent, "more finding") + " of kinds that are mostly false: --all prints them");
  }
  bool has_unrecorded = false, leaves_out = false;
  for (const AnalyzerReport& analyzer : report.analyzers) {
    const auto is_shown = [has_gpus](const MeasureRow& measure) { return has_gpus || !IsOfIdleGpus(measure); };
    leaves_out |= std::any_of(analyzer.measures.begin(), analyzer.measures.end(), [&](const MeasureRow& measure) {
      return !is_shown(measure) && std::isnan(measure.value);
    });
    if (std::none_of(analyzer.measures.begin(), analyzer.measures.end(), is_shown)) continue;
    lines.Blank();
    lines.Add(0, analyzer.name + "  " + analyzer.title);
    for (const MeasureRow& measure : analyzer.measures) {
      if (!is_shown(measure)) continue;
      has_unrecorded |= std::isnan(measure.value);
      lines.Add(3, PadRight(model::ShortName(measure.subject), model::kShortName) + "  " + PadRight(measure.name, 40) +
                       PadLeft(WithUnit(measure.value, measure.unit), 16));
    }
  }
  if (has_unrecorded) {
    lines.Blank();
    lines.AddWrapped(0, "not recorded: ", WhyNotRecorded(trace));
  }
  if (leaves_out) {
    const std::string why = model::WhyNoKernels(trace);
    lines.Blank();
    lines.AddWrapped(
        0, "left out: ",
        "rows on GPU work, which was not recorded" + (why.empty() ? "" : ": " + model::InHostLanguage(trace, why)));
  }
  return lines.text();
}

ordered_json Json(const EvidenceRow& evidence) {
  constexpr const char* kTables[] = {"window", "events", "calls", "gpu"};
  return {{"table", kTables[static_cast<size_t>(evidence.table)]},
          {"first_row", evidence.first_row},
          {"rows", evidence.rows},
          {"begin_ns", evidence.begin_ns},
          {"end_ns", evidence.end_ns},
          {"note", evidence.note}};
}

ordered_json Json(const FindingRow& finding) {
  ordered_json evidence = ordered_json::array(), contradictions = ordered_json::array();
  for (const analyze::Contradiction& other : finding.contradictions)
    contradictions.push_back({{"code", other.code}, {"subject", other.subject}, {"why", other.why}});
  for (const EvidenceRow& row : finding.evidence) evidence.push_back(Json(row));
  return {{"code", finding.code},
          {"subject", finding.subject},
          {"severity", SeverityName(finding.severity)},
          {"confidence", finding.confidence},
          {"precision", finding.precision},
          {"right_in", finding.right_in},
          {"of_measured", finding.of_measured},
          {"silent", finding.IsSilent()},
          {"undetermined", finding.is_undetermined},
          {"cost_ns", finding.cost_ns},
          {"metric", finding.metric},
          {"value", finding.value},
          {"threshold",
           {{"name", finding.threshold.name},
            {"value", finding.threshold.value},
            {"unit", finding.threshold.unit},
            {"source", finding.threshold.source}}},
          {"summary", finding.summary},
          {"recommendation", finding.recommendation},
          {"evidence", std::move(evidence)},
          {"caveats", finding.caveats},
          {"repeats", finding.repeats},
          {"contradictions", std::move(contradictions)}};
}

// The value of a measure that was not recorded is null, with the reason.
ordered_json Json(const model::Trace& trace, const MeasureRow& measure) {
  ordered_json row = {
      {"subject", measure.subject}, {"name", measure.name}, {"value", measure.value}, {"unit", measure.unit}};
  if (std::isnan(measure.value)) {
    row["value"] = nullptr;
    row["not_recorded"] = WhyNotRecorded(trace);
  }
  return row;
}

std::string Json(const AnalyzeArguments& arguments, const model::Trace& trace, const AnalysisReport& report) {
  ordered_json document, analyzers = ordered_json::array();
  for (const AnalyzerReport& analyzer : report.analyzers) {
    ordered_json measures = ordered_json::array(), findings = ordered_json::array();
    for (const MeasureRow& measure : analyzer.measures) measures.push_back(Json(trace, measure));
    for (const FindingRow& finding : analyzer.findings) findings.push_back(Json(finding));
    analyzers.push_back({{"name", analyzer.name},
                         {"title", analyzer.title},
                         {"status", StatusCodeName(analyzer.status.code())},
                         {"message", analyzer.status.message()},
                         {"cpu_ns", analyzer.cpu_ns},
                         {"measures", std::move(measures)},
                         {"findings", std::move(findings)}});
  }
  document["compat"] = arguments.compat;
  document["window_ns"] = report.window_ns;
  document["index_cpu_ns"] = report.index_cpu_ns;
  document["analyzers"] = std::move(analyzers);
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

// False, with a message, if a setting is not "NAME=NUMBER".
bool TakeSettings(const AnalyzeArguments& arguments, AnalyzeOptions* options) {
  for (const std::string& setting : arguments.settings) {
    const std::vector<std::string> parts = absl::StrSplit(setting, absl::MaxSplits('=', 1));
    double value = 0;
    if (parts.size() != 2 || !absl::SimpleAtod(parts[1], &value)) {
      Complain(absl::StrFormat(
          "--set %s: the form is a04.idle_share=0.2; docs/reference/analyzers.md lists the thresholds.", setting));
      return false;
    }
    options->thresholds.push_back({absl::AsciiStrToLower(parts[0]), value});
  }
  return true;
}

// Single letters to insert, remove or replace in order to turn one word into the other.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j)
      diagonal = std::exchange(row[j + 1], std::min({diagonal + (a[i] != b[j]), row[j] + 1, row[j + 1] + 1}));
  }
  return row.back();
}

// Whether `typed` has the analyzer's number: "a4", "a04.idle".
bool IsNumbered(const std::string& typed, const AnalyzerInfo& info) {
  const std::string name = typed.substr(0, typed.find('.'));
  int number = 0, of_info = 0;
  return name.size() > 1 && absl::SimpleAtoi(name.substr(1), &number) && absl::SimpleAtoi(info.name + 1, &of_info) &&
         number == of_info;
}

// Whether `typed` has nearly a word of the analyzer's title.
bool IsTitled(const std::string& typed, const AnalyzerInfo& info) {
  constexpr size_t kLeastLetters = 4;
  for (const absl::string_view word : absl::StrSplit(typed, absl::ByAnyChar(" _-."))) {
    for (const absl::string_view of_title : absl::StrSplit(info.title, absl::ByAnyChar(" ,:"))) {
      const size_t letters = std::min(word.size(), of_title.size());
      if (letters >= kLeastLetters && Distance(word, absl::AsciiStrToLower(of_title)) <= letters / kLeastLetters)
        return true;
    }
  }
  return false;
}

// False, with a message, if --only has a name that no analyzer has.
bool TakeNames(const AnalyzeArguments& arguments, const std::vector<std::unique_ptr<Analyzer>>& analyzers,
               AnalyzeOptions* options) {
  for (const absl::string_view name : absl::StrSplit(arguments.only, ',', absl::SkipWhitespace()))
    options->only.push_back(absl::AsciiStrToLower(absl::StripAsciiWhitespace(name)));
  for (const std::string& name : options->only) {
    std::vector<std::string> all, numbered, titled;
    for (const std::unique_ptr<Analyzer>& analyzer : analyzers) {
      const AnalyzerInfo info = analyzer->Info();
      all.emplace_back(info.name);
      const std::string shown = absl::StrFormat("%s (%s)", info.name, info.title);
      if (IsNumbered(name, info)) numbered.push_back(shown);
      if (IsTitled(name, info)) titled.push_back(shown);
    }
    if (std::find(all.begin(), all.end(), name) != all.end()) continue;
    const std::vector<std::string>& near = numbered.empty() ? titled : numbered;
    Complain(absl::StrFormat(
        "--only %s: there is no such analyzer.%s The analyzers are %s; "
        "docs/reference/analyzers.md describes them.",
        name, near.empty() ? "" : " Did you mean " + absl::StrJoin(near, " or ") + "?", absl::StrJoin(all, ", ")));
    return false;
  }
  return true;
}

// Measures of nothing are no answer.
bool HasNoAnswer(const AnalysisReport& report, bool is_of_nothing) {
  return std::all_of(report.analyzers.begin(), report.analyzers.end(), [&](const AnalyzerReport& one) {
    return (one.measures.empty() || is_of_nothing) && one.findings.empty();
  });
}

// Returns whether there are any.
bool ComplainOfFailures(const AnalysisReport& report) {
  bool has_failures = false;
  for (const AnalyzerReport& analyzer : report.analyzers) {
    if (analyzer.status.ok()) continue;
    has_failures = true;
    Complain(absl::StrFormat("%s gave no answer: %s", analyzer.name, analyzer.status.message()));
  }
  return has_failures;
}

int AnalyzeFile(const AnalyzeArguments& arguments) {
  AnalyzeOptions options;
  options.budget_ns = static_cast<int64_t>(arguments.budget_ms * 1e6);
  const std::vector<std::unique_ptr<Analyzer>> analyzers = kCompats.at(arguments.compat)();
  if (!TakeNames(arguments, analyzers, &options) || !TakeSettings(arguments, &options)) return kUsage;

  model::Trace trace;
  LoadReport file;
  const int loaded = Load(arguments.inputs, &trace, &file);
  if (loaded != kDone && loaded != kDamaged) return loaded;
  AnalysisReport report;
  const Status status = Analyze(trace, analyzers, options, &report);
  if (!status.ok()) {
    const bool is_usage = status.code() == StatusCode::kInvalidArgument;
    Complain(std::string(status.message()) +
             (is_usage ? ". docs/reference/analyzers.md lists analyzers and thresholds." : ""));
    return is_usage ? kUsage : kUnreadable;
  }
  const bool has_failures = ComplainOfFailures(report);
  const bool has_gpus = !trace.devices.empty() || trace.gpu.size() != 0 || trace.calls.size() != 0;
  Print(arguments.json ? Json(arguments, trace, report) : Text(arguments, trace, report, has_gpus));
  const bool is_of_nothing = IsEmpty(trace);
  const bool is_empty = HasNoAnswer(report, is_of_nothing);
  if (is_empty && is_of_nothing)
    Complain(absl::StrFormat(
        "nothing happened in %s: record again while the program works. `pitot info` lists the content of "
        "the file.",
        arguments.input));
  if (!is_empty || is_of_nothing || has_failures) return ExitCodeOf(loaded, is_empty ? kNothingFound : kDone);
  Complain(absl::StrFormat("%s found nothing in %s", absl::StrJoin(options.only, ", "), arguments.input));
  return ExitCodeOf(loaded, kDone);
}

}  // namespace

void AddAnalyze(CommandLine& line) {
  auto arguments = std::make_shared<AnalyzeArguments>();
  const Command command = line.Command("analyze", "Finds slow parts of a trace, with confidence and advice");
  command.Add("dump", &arguments->inputs, std::string(kDumpHelp) + kSeveralHelp).Required();
  command.Add("--only", &arguments->only, "Only these analyzers: a01,a04");
  std::vector<std::string> names;
  for (const auto& [name, make] : kCompats) names.push_back(name);
  command.Add("--compat", &arguments->compat, "Count as this tool does").OneOf(names).ShowDefault();
  command.Add("--set", &arguments->settings, "A threshold, such as a04.idle_share=0.2; may be repeated").OneEachTime();
  command.Add("--budget", &arguments->budget_ms, "CPU time limit of one analyzer in ms; it is cut off beyond that")
      .Number(1e-6, 9e12)
      .ShowDefault();
  command.AddFlag("--all", &arguments->is_all, "Also findings of kinds that are mostly false");
  command.AddFlag("--json", &arguments->json, "For programs: docs/reference/analyzers.md");
  command.Footer(
      "Exit codes: 1 nothing happened in the trace; see `pitot --help` for others. docs/reference/analyzers.md lists "
      "the\n"
      "analyzers and their thresholds.");
  command.Run([arguments] {
    arguments->input = DumpPaths(&arguments->inputs);
    return AnalyzeFile(*arguments);
  });
}

}  // namespace pitot::cli
