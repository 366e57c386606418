// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/diff.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "base/columns.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/files.h"
#include "model/kernel_name.h"

namespace pitot::cli {
namespace {

using analyze::Diff;
using analyze::DiffGate;
using analyze::DiffOutcome;
using analyze::DiffRow;
using analyze::DiffTable;
using base::Lines;
using base::PadLeft;
using base::PadRight;
using nlohmann::ordered_json;

struct DiffArguments {
  std::string before, after;
  analyze::DiffOptions options;
  double least_us = 50;
  size_t limit = 10;
  bool json = false;
};

constexpr const char* kLatency = "latency";  // the gate of each request's time
constexpr size_t kNameColumns = 37;          // left over by the numbers
static_assert(kNameColumns >= model::kShortName);

std::string Signed(int64_t ns) { return (ns > 0 ? "+" : "") + base::Duration(ns); }
std::string Growth(double ratio) { return std::isfinite(ratio) ? base::Format("%+.1f %%", 100 * (ratio - 1)) : "new"; }

std::string Value(double value, const std::string& unit) {
  if (unit == "ns") return base::Duration(std::llround(value));
  return unit == "bytes" ? base::Bytes(static_cast<uint64_t>(std::llround(value))) : base::Format("%.6g", value);
}

std::string PText(double p) { return p < 0.001 ? "<.001" : base::Format("%.3f", p).substr(p < 1 ? 1 : 0); }

std::string Requests(const Diff& diff, uint64_t count) { return base::Plural(count, DiffPerName(diff.per)); }

void AddGates(const Diff& diff, Lines* lines) {
  lines->Add(0, PadRight("a " + std::string(DiffPerName(diff.per)), 16) + PadLeft("before", 12) + PadLeft("after", 12) +
                    PadLeft("shift", 10) + "   " + PadRight("95 % within", 22) + PadLeft("limit", 8));
  for (const DiffGate& gate : diff.gates) {
    const std::string bounds = gate.is_known ? Growth(gate.low) + " to " + Growth(gate.high) : "not known";
    lines->Add(0, PadRight(gate.name, 16) + PadLeft(Value(gate.before, gate.unit), 12) +
                      PadLeft(Value(gate.after, gate.unit), 12) +
                      PadLeft(gate.is_known ? Growth(gate.ratio) : "-", 10) + "   " +
                      PadRight(diff.is_same_recording                   ? "the same"
                               : gate.low == gate.high && gate.is_known ? "counted"
                                                                        : bounds,
                               22) +
                      PadLeft(Growth(gate.limit), 8) + "  " + DiffOutcomeName(gate.outcome));
    if (!gate.why.empty()) lines->AddWrapped(3, "", gate.why + (gate.decides ? "" : " (does not decide)"));
  }
  lines->AddWrapped(0, "shift: ",
                    "after / before; for latency and gpu time, shown as means, the median difference between requests "
                    "over the median before");
}

// Shows kernels by their brief names, as other commands do, except when rows are instantiations of one template.
class Names {
 public:
  explicit Names(const DiffTable& table) {
    for (const DiffRow& row : table.rows) {
      full_[Brief(row.name)].insert(row.name);
      if (!row.was.empty()) full_[Brief(row.was)].insert(row.was);
    }
  }
  std::string Of(const std::string& name) const {
    const std::string brief = Brief(name);
    return full_.at(brief).size() == 1 ? brief : name;
  }

 private:
  // Names outside of C++ ("memcpy HtoD, pageable to device", "file.py(12): function") stay as they are; "and 2 more" is
  // kept.
  static std::string Brief(const std::string& name) {
    const size_t more = std::min(name.rfind(" and "), name.size());
    if (name.find_first_of("<(") >= more || name.find("): ") != std::string::npos) return name;
    const bool has_more = absl::EndsWith(name, " more");
    return model::BriefName(has_more ? name.substr(0, more) : name) + (has_more ? name.substr(more) : "");
  }
  std::map<std::string, std::set<std::string>> full_;
};

void AddTable(const DiffArguments& arguments, const DiffTable& table, Lines* lines) {
  lines->Blank();
  lines->Add(0, table.name + ": " + base::Duration(table.before_ns) + " -> " + base::Duration(table.after_ns) + ", " +
                    Signed(table.after_ns - table.before_ns));
  lines->Add(3, PadLeft("change", 9) + PadLeft("by count", 10) + PadLeft("by length", 11) + PadLeft("count", 20) +
                    PadLeft("p", 7) + "   name");
  const Names names(table);
  size_t shown = 0;
  int64_t rest_ns = 0;
  for (const DiffRow& row : table.rows) {
    const int64_t change_ns = row.after_ns - row.before_ns;
    if (shown >= arguments.limit && arguments.limit != 0) {
      rest_ns += change_ns;
      continue;
    }
    ++shown;
    const std::string counts = base::Format("%.4g -> %.4g", row.before_count, row.after_count);
    lines->Add(3, PadLeft(Signed(change_ns), 9) + PadLeft(Signed(row.count_effect_ns), 10) +
                      PadLeft(Signed(row.duration_effect_ns), 11) + PadLeft(counts, 20) +
                      PadLeft(table.is_judged ? PText(row.p) : "-", 7) + (row.is_significant ? " * " : "   ") +
                      model::ShortName(names.Of(row.name)));
    if (!row.was.empty())
      lines->Add(base::kColumns - kNameColumns, "was " + model::ShortName(names.Of(row.was), kNameColumns - 4));
  }
  if (shown < table.rows.size())
    lines->Add(3, PadLeft(Signed(rest_ns), 9) + "  " + base::Plural(table.rows.size() - shown, "other"));
}

// The measures that grew by more than their limit, without a proof: quantiles that do not decide, and the mean of a
// latency that passed.
std::string UnprovenGrowth(const Diff& diff) {
  std::vector<std::string> grown;
  for (const DiffGate& gate : diff.gates) {
    const bool is_mean = gate.name == kLatency && gate.outcome == DiffOutcome::kPass;  // a few slow requests move it
    const bool is_open = !gate.decides && gate.outcome == DiffOutcome::kInconclusive;
    if ((!is_mean && !is_open) || gate.before <= 0) continue;
    const double ratio = gate.after / gate.before;
    if (ratio <= gate.limit) continue;
    grown.push_back((is_mean ? "mean latency " : gate.name + " ") + Growth(ratio) +
                    (gate.is_known && !is_mean ? " (" + Growth(gate.low) + " to " + Growth(gate.high) + ")" : ""));
  }
  return absl::StrJoin(grown, ", ");
}

// The significant row with the largest change: "aten::add +3.24 ms a step (latency +2.1 %)"; "" without one.
std::string LargestChange(const Diff& diff) {
  const auto change_of = [](const DiffRow& row) { return row.after_ns - row.before_ns; };
  const DiffRow* largest = nullptr;
  for (const DiffTable& table : diff.tables) {
    for (const DiffRow& row : table.rows) {
      if (row.is_significant && (largest == nullptr || std::abs(change_of(row)) > std::abs(change_of(*largest))))
        largest = &row;
    }
  }
  if (largest == nullptr || diff.per == analyze::DiffPer::kTrace) return {};
  std::string text =
      model::ShortName(largest->name) + " " + Signed(change_of(*largest)) + " a " + DiffPerName(diff.per);
  for (const DiffGate& gate : diff.gates) {
    if (gate.name == kLatency && gate.is_known) text += " (latency " + Growth(gate.ratio) + ")";
  }
  return text;
}

// One line, time before counts. "No regression" only if no quantile grew by more than its limit.
std::string Conclusion(const Diff& diff) {
  const std::string name = DiffOutcomeName(diff.outcome), unproven = UnprovenGrowth(diff);
  if (diff.is_same_recording) return name + ", and no difference";
  const std::string largest = LargestChange(diff);
  if (diff.outcome == DiffOutcome::kPass && unproven.empty()) return name + (largest.empty() ? "" : ": " + largest);
  if (diff.outcome == DiffOutcome::kPass)
    return "not a proven regression: " + unproven + "; too few requests for a proof";
  std::vector<std::string> gates;
  std::string why;
  bool has_time = false;
  for (const DiffGate& gate : diff.gates) {
    if (gate.outcome != diff.outcome || (!gate.decides && gate.outcome != DiffOutcome::kRegression)) continue;
    const bool has_bounds = gate.is_known && gate.outcome == DiffOutcome::kInconclusive && gate.low != gate.high;
    has_time |= gate.unit == "ns";
    gates.push_back(gate.name + (gate.is_known ? " " + Growth(gate.ratio) : "") +
                    (has_bounds ? " (" + Growth(gate.low) + " to " + Growth(gate.high) + ")" : ""));
    if (why.empty()) why = gate.why;
  }
  if (diff.outcome == DiffOutcome::kRegression && !has_time && !largest.empty()) gates.insert(gates.begin(), largest);
  return name + (gates.empty() ? "" : ": " + absl::StrJoin(gates, ", ")) + (why.empty() ? "" : "; " + why) +
         (unproven.empty() ? "" : "; not proven: " + unproven);
}

std::string Text(const DiffArguments& arguments, const Diff& diff) {
  Lines lines(WrapWidth(base::kColumns));
  lines.AddWrapped(0, "", Conclusion(diff));
  lines.Add(0, Requests(diff, diff.before_requests) + " before, " + Requests(diff, diff.after_requests) + " after");
  for (const std::string& note : diff.notes) lines.AddWrapped(0, "note: ", note);
  lines.Blank();
  AddGates(diff, &lines);
  if (diff.per == analyze::DiffPer::kRequest) {
    lines.Blank();
    lines.Add(0, "mean latency " + base::Duration(diff.before_latency_ns) + " -> " +
                     base::Duration(diff.after_latency_ns) + ": " +
                     Signed(diff.after_latency_ns - diff.before_latency_ns) + " = " + Signed(diff.within_ns) +
                     " within routes and sizes, " + Signed(diff.between_ns) + " by their mix");
  }
  for (const DiffTable& table : diff.tables) AddTable(arguments, table, &lines);
  return lines.text();
}

// JSON has no infinity.
ordered_json FiniteOrNull(double value) { return std::isfinite(value) ? ordered_json(value) : ordered_json(); }

std::string Json(const Diff& diff) {
  ordered_json gates = ordered_json::array(), tables = ordered_json::array();
  for (const DiffGate& gate : diff.gates) {
    gates.push_back({{"name", gate.name},
                     {"unit", gate.unit},
                     {"before", gate.before},
                     {"after", gate.after},
                     {"known", gate.is_known},
                     {"ratio", FiniteOrNull(gate.ratio)},
                     {"low", FiniteOrNull(gate.low)},
                     {"high", FiniteOrNull(gate.high)},
                     {"limit", gate.limit},
                     {"decides", gate.decides},
                     {"outcome", DiffOutcomeName(gate.outcome)},
                     {"why", gate.why}});
  }
  for (const DiffTable& table : diff.tables) {
    ordered_json rows = ordered_json::array();
    for (const DiffRow& row : table.rows) {
      rows.push_back({{"name", row.name},
                      {"was", row.was},
                      {"before_count", row.before_count},
                      {"after_count", row.after_count},
                      {"before_ns", row.before_ns},
                      {"after_ns", row.after_ns},
                      {"count_effect_ns", row.count_effect_ns},
                      {"duration_effect_ns", row.duration_effect_ns},
                      {"p", row.p},
                      {"significant", row.is_significant},
                      {"by_count", row.is_count},
                      {"by_duration", row.is_duration}});
    }
    tables.push_back({{"name", table.name},
                      {"before_ns", table.before_ns},
                      {"after_ns", table.after_ns},
                      {"judged", table.is_judged},
                      {"rows", std::move(rows)}});
  }
  const ordered_json document = {{"outcome", DiffOutcomeName(diff.outcome)},
                                 {"same_recording", diff.is_same_recording},
                                 {"per", DiffPerName(diff.per)},
                                 {"before_requests", diff.before_requests},
                                 {"after_requests", diff.after_requests},
                                 {"before_latency_ns", diff.before_latency_ns},
                                 {"after_latency_ns", diff.after_latency_ns},
                                 {"within_ns", diff.within_ns},
                                 {"between_ns", diff.between_ns},
                                 {"mix_shift", diff.mix_shift},
                                 {"sizes_p", diff.sizes_p},
                                 {"compared_before", diff.compared_before},
                                 {"compared_after", diff.compared_after},
                                 {"gates", std::move(gates)},
                                 {"tables", std::move(tables)},
                                 {"notes", diff.notes}};
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

int DiffFiles(DiffArguments& arguments) {
  model::Trace before, after;
  LoadReport report;
  const int loaded_before = Load(arguments.before, &before, &report);
  if (loaded_before != kDone && loaded_before != kDamaged) return loaded_before;
  const int loaded_after = Load(arguments.after, &after, &report);
  if (loaded_after != kDone && loaded_after != kDamaged) return loaded_after;
  arguments.options.least_ns = std::llround(arguments.least_us * 1e3);
  Diff diff;
  if (const Status status = FindDiff(before, after, arguments.options, &diff); !status.ok()) {
    Complain(status.message());
    return status.code() == StatusCode::kInvalidArgument ? kUsage : kUnreadable;
  }
  Print(arguments.json ? Json(diff) : Text(arguments, diff));
  if (loaded_before == kDamaged || loaded_after == kDamaged) return kDamaged;
  return diff.outcome == DiffOutcome::kRegression ? kNothingFound
         : diff.outcome == DiffOutcome::kPass     ? kDone
                                                  : kInconclusive;
}

}  // namespace

void AddDiff(CommandLine& line) {
  auto arguments = std::make_shared<DiffArguments>();
  const Command command = line.Command("diff", "Compares two traces, and decides whether the second is a regression");
  command.Add("before", &arguments->before, kDumpHelp).Required();
  command.Add("after", &arguments->after, "The same, for the trace to be judged").Required();
  command.Add("--regression", &arguments->options.regression, "Times worse by more than this share are a regression")
      .Number(0)
      .ShowDefault();
  command
      .Add("--count-growth", &arguments->options.count_growth,
           "The same for launches, bytes copied, waits for GPUs and allocations; 0.01 if not given, and where the "
           "latency "
           "fell the limit of times")
      .Number(0);
  command.Add("--q", &arguments->options.q, "Share of false positives among significant rows")
      .Number(1e-9, 0.999)
      .ShowDefault();
  command
      .Add("--least-share", &arguments->options.least_share,
           "Effects below this share of the row's time before are not significant")
      .Number(0)
      .ShowDefault();
  command.Add("--least-us", &arguments->least_us, "Effects of fewer us per request are not significant")
      .Number(0, 9e12)
      .ShowDefault();
  command.Add("--limit", &arguments->limit, "Rows of each table; 0 shows all").Whole(0, 1000000000).ShowDefault();
  command.AddFlag("--json", &arguments->json, "For programs, with all rows: docs/reference/diff.md");
  command.Footer(
      "Exit codes: 0 no regression, 1 a regression, 7 inconclusive; see `pitot --help` for others. The rules are in\n"
      "docs/reference/diff.md.");
  command.Run([arguments] {
    arguments->before = DumpPath(arguments->before);
    arguments->after = DumpPath(arguments->after);
    return DiffFiles(*arguments);
  });
}

}  // namespace pitot::cli
