// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/top.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/columns.h"
#include "cli/command.h"
#include "cli/files.h"

namespace pitot::cli {
namespace {

using analyze::TopBy;
using analyze::TopOptions;
using analyze::TopRow;
using analyze::TopSort;
using analyze::TopTable;
using model::Trace;
using nlohmann::ordered_json;

constexpr size_t kWidth = 120;
constexpr size_t kMinNameWidth = 16, kMaxShapeWidth = 30;

const std::map<std::string, TopBy> kBys = {{"op", TopBy::kOperator},
                                           {"kernel", TopBy::kKernel},
                                           {"layer", TopBy::kLayer},
                                           {"scope", TopBy::kScope},
                                           {"request", TopBy::kRequest}};
// As the fields of --json, without the unit.
const std::map<std::string, TopSort> kSorts = {{"self_cpu", TopSort::kSelfCpu},
                                               {"cpu_total", TopSort::kCpuTotal},
                                               {"cpu_avg", TopSort::kCpuAverage},
                                               {"self_gpu", TopSort::kSelfGpu},
                                               {"gpu_total", TopSort::kGpuTotal},
                                               {"gpu_avg", TopSort::kGpuAverage},
                                               {"gpu_busy", TopSort::kGpuBusy},
                                               {"calls", TopSort::kCalls},
                                               {"p50", TopSort::kP50},
                                               {"gpu_exposed", TopSort::kGpuExposed},
                                               {"p99", TopSort::kP99},
                                               {"name", TopSort::kName}};

struct TopArguments {
  std::string input, by = "op", sort, request;
  int64_t limit = 20;
  bool groups_by_shape = false, json = false;
};

std::string NameOf(TopBy by) {
  return std::find_if(kBys.begin(), kBys.end(), [&](const auto& entry) { return entry.second == by; })->first;
}

// "Self CUDA" and "CPU time avg", as the table's columns are called, are "self_gpu" and "cpu_avg".
std::string SortName(const std::string& column) {
  const std::string words = absl::StrReplaceAll(absl::AsciiStrToLower(column), {{" ", "_"}});
  return absl::StrReplaceAll(words, {{"cuda", "gpu"}, {"_time_avg", "_avg"}, {"#_of_", ""}});
}

// Three digits and a unit: "1.23ms".
std::string Time(int64_t ns) {
  if (ns == TopRow::kUnset) return "-";
  if (ns == 0) return "0us";
  const double us = static_cast<double>(ns) * 1e-3;
  const double scale = us < 999.5 ? 1 : us < 999500 ? 1e3 : 1e6;
  const char* const unit = us < 999.5 ? "us" : us < 999500 ? "ms" : "s";
  const double value = us / scale;
  return base::Format("%.*f%s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, unit);
}
std::string Share(int64_t part, int64_t whole) {
  if (whole == 0) return "-";
  if (part == 0) return "0%";
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  return base::Format("%.*f%%", percent < 9.995 ? 2 : percent < 99.95 ? 1 : 0, percent);
}

// A column: its title, a word or two above each other, and its cells.
struct Column {
  std::string above, title;
  std::vector<std::string> cells;
  bool is_text = false;
  size_t Width() const {
    size_t width = std::max(base::Width(above), base::Width(title));
    for (const std::string& cell : cells) width = std::max(width, base::Width(cell));
    return width;
  }
};

// Kernels are called by their brief names where that tells them apart: the full ones are hundreds of letters.
std::vector<std::string> Names(const TopTable& table, size_t shown) {
  std::vector<std::string> names;
  std::map<std::string, int> times;
  for (size_t i = 0; i < shown; ++i) {
    const TopRow& row = table.rows[i];
    names.push_back(row.brief_name.empty() ? row.name : row.brief_name);
    ++times[names.back() + '\n' + row.shape];
  }
  for (size_t i = 0; i < shown; ++i) {
    if (times[names[i] + '\n' + table.rows[i].shape] > 1) names[i] = table.rows[i].name;
  }
  return names;
}

std::vector<Column> Columns(const TopTable& table, size_t shown) {
  std::vector<Column> columns;
  const auto add = [&](const char* above, const char* title, const auto& cell) {
    columns.push_back({above, title, {}, false});
    for (size_t i = 0; i < shown; ++i) columns.back().cells.push_back(cell(table.rows[i]));
  };
  columns.push_back({"", "Name", Names(table, shown), true});
  const bool has_shapes = std::any_of(table.rows.begin(), table.rows.begin() + static_cast<int64_t>(shown),
                                      [](const TopRow& row) { return !row.shape.empty(); });
  if (has_shapes) {
    columns.push_back({"", table.by == TopBy::kKernel ? "Launched as" : "Input Shapes", {}, true});
    for (size_t i = 0; i < shown; ++i) columns.back().cells.push_back(table.rows[i].shape);
  }
  const bool has_gpu = table.gpu_ns != 0;
  const bool is_kernel = table.by == TopBy::kKernel, is_request = table.by == TopBy::kRequest;
  // Shapes need the room of what --json says, too.
  const bool is_brief = has_shapes && has_gpu && !is_kernel;
  if (!is_kernel) {
    if (!is_brief) add("Self", "CPU %", [&](const TopRow& row) { return Share(row.self_cpu_ns, table.cpu_ns); });
    add("Self", "CPU", [](const TopRow& row) { return Time(row.self_cpu_ns); });
  }
  if (!is_kernel && !is_request) {
    if (!is_brief) add("CPU", "total %", [&](const TopRow& row) { return Share(row.cpu_total_ns, table.cpu_ns); });
    add("CPU", "total", [](const TopRow& row) { return Time(row.cpu_total_ns); });
    add("CPU", "time avg", [](const TopRow& row) { return Time(row.CpuAverageNs()); });
  }
  if (has_gpu) {
    add("Self", "CUDA", [](const TopRow& row) { return Time(row.self_gpu_ns); });
    add("Self", "CUDA %", [&](const TopRow& row) { return Share(row.self_gpu_ns, table.gpu_ns); });
  }
  if (has_gpu && !is_request) {
    if (!is_kernel) add("CUDA", "total", [](const TopRow& row) { return Time(row.gpu_total_ns); });
    add("CUDA", "time avg", [](const TopRow& row) { return Time(row.GpuAverageNs()); });
  }
  if (is_request) {
    if (has_gpu) add("GPU", "records", [](const TopRow& row) { return std::to_string(row.gpu_records); });
  } else {
    add("# of", "Calls", [](const TopRow& row) { return row.calls == 0 ? "-" : std::to_string(row.calls); });
  }
  if (!is_request && !is_brief) {
    add(is_kernel ? "CUDA" : "CPU", "p50",
        [&](const TopRow& row) { return Time(is_kernel ? row.gpu_p50_ns : row.cpu_p50_ns); });
    add(is_kernel ? "CUDA" : "CPU", "p99",
        [&](const TopRow& row) { return Time(is_kernel ? row.gpu_p99_ns : row.cpu_p99_ns); });
  }
  if (has_gpu && (is_kernel || is_request)) {
    add("CUDA", "busy", [](const TopRow& row) { return Time(row.gpu_busy_ns); });
  }
  if (has_gpu) add("CUDA", "exposed", [](const TopRow& row) { return Time(row.gpu_exposed_ns); });
  return columns;
}

// Text columns take what the others leave.
std::string Grid(const std::vector<Column>& columns) {
  size_t numbers = 0, texts = 0;
  for (const Column& column : columns) (column.is_text ? texts : numbers) += column.is_text ? 1 : column.Width() + 1;
  size_t left = std::max(kMinNameWidth, kWidth - std::min(kWidth, numbers));
  std::vector<size_t> widths;
  for (const Column& column : columns) widths.push_back(column.Width());
  if (texts == 2) {
    widths[1] = std::min({widths[1], kMaxShapeWidth, std::max(kMinNameWidth, left / 2)});
    left = std::max(kMinNameWidth, left - std::min(left, widths[1] + 1));
  }
  widths[0] = std::min(widths[0], left);

  std::string text;
  const auto line = [&](const auto& cell) {
    std::string row;
    for (size_t i = 0; i < columns.size(); ++i) {
      const std::string shown = base::CutMiddle(cell(columns[i]), widths[i]);
      if (i != 0) row += ' ';
      row += columns[i].is_text ? base::PadRight(shown, widths[i]) : base::PadLeft(shown, widths[i]);
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + '\n';
  };
  line([](const Column& column) { return column.above; });
  line([](const Column& column) { return column.title; });
  size_t width = columns.size() - 1;
  for (const size_t column : widths) width += column;
  text += std::string(width, '-') + '\n';
  for (size_t i = 0; i < columns[0].cells.size(); ++i) line([&](const Column& column) { return column.cells[i]; });
  return text += std::string(width, '-') + '\n';
}

// Never 100 where something is missing.
std::string CoverageText(const model::KernelCoverage& coverage) {
  if (coverage.covered_ns == coverage.ran_ns) return "100 %";
  const double percent = 100.0 * static_cast<double>(coverage.covered_ns) / static_cast<double>(coverage.ran_ns);
  return base::Format("%.1f %%", std::min(std::floor(percent * 10) / 10, 99.9));
}

std::string Notes(const TopTable& table, bool is_of_request) {
  std::string notes;
  const auto add = [&](const std::string& note) { notes += (notes.empty() ? "" : "; ") + note; };
  if (table.has_gpu) {
    const char* const of = is_of_request ? "the request's time" : "the window";
    add(table.coverage.is_known ? "kernels were recorded in " + CoverageText(table.coverage) + " of " + of
                                : std::string("in how much of ") + of + " kernels were recorded is not known");
  }
  if (table.is_damaged) add("the dump is damaged: times are of what is left of it");
  if (table.losses != 0)
    add("events were lost (" + base::Plural(table.losses, "loss") +
        (table.lost_events != 0 ? ", " + base::Plural(table.lost_events, "event") + " known" : "") + ")");
  if (table.gpu_losses != 0) add("GPU records were lost (" + base::Plural(table.gpu_losses, "loss") + ")");
  if (table.spans != 0 && table.by != TopBy::kRequest)
    add(base::Plural(table.spans, "span") + " by CUDA events " + (table.spans == 1 ? "is" : "are") + " not counted");
  if (table.other_members != 0 && table.by != TopBy::kRequest)
    add("its batches are shared with " + base::Plural(table.other_members, "other request"));
  return notes;
}

// Which ranks of those shown may as well be the other way round. "" where it is not known.
std::string Order(const TopTable& table, size_t shown) {
  constexpr double kSure = 0.95;
  size_t known = 0;  // the first rows of which it is known whether they are above the next
  while (known + 1 < shown && table.rows[known].above_next >= 0) ++known;
  if (known == 0) return {};
  std::string alike;
  for (size_t first = 0, last; first < known; first = last + 1) {
    for (last = first; last < known && table.rows[last].above_next < kSure;) ++last;
    if (last > first) alike += base::Format("%s%zu-%zu", alike.empty() ? "" : ", ", first + 1, last + 1);
  }
  const std::string drawn = " (95 %, by resamples of " + base::Count(table.resampled) + " requests, batches or steps)";
  if (!alike.empty()) return "order: ranks " + alike + " cannot be told apart" + drawn;
  return "order: ranks 1-" + std::to_string(known + 1) + " are sure" + drawn;
}

std::string Table(const TopTable& table, size_t shown, bool is_of_request) {
  std::string text = Grid(Columns(table, shown));
  const auto line = [&](const std::string& words) {
    base::Lines lines;
    lines.AddWrapped(0, "", words);
    text += lines.text();
  };
  if (table.by != TopBy::kKernel) line("Self CPU time total: " + Time(table.cpu_ns));
  if (table.gpu_ns != 0)
    line("Self CUDA time total: " + Time(table.gpu_ns) + ", busy " + Time(table.gpu_busy_ns) + ", exposed " +
         Time(table.gpu_exposed_ns));
  if (const std::string order = Order(table, shown); !order.empty()) line(order);
  if (const std::string notes = Notes(table, is_of_request); !notes.empty()) line("note: " + notes);
  if (shown < table.rows.size()) line(absl::StrFormat("%d of %d rows; --limit 0 shows all", shown, table.rows.size()));
  return text;
}

ordered_json Ns(int64_t ns) { return ns == TopRow::kUnset ? ordered_json() : ordered_json(ns); }

std::string Json(const Trace& trace, const TopTable& table, size_t shown) {
  ordered_json rows = ordered_json::array();
  for (size_t i = 0; i < shown; ++i) {
    const TopRow& row = table.rows[i];
    ordered_json one = {{"name", row.name}};
    if (table.by == TopBy::kRequest) {
      const bool has_id = row.request != model::kNone;
      one["request"] = has_id ? ordered_json(base::RequestId(trace.requests[row.request].id)) : ordered_json();
    }
    one.update({{"shape", row.shape.empty() ? ordered_json() : ordered_json(row.shape)},
                {"calls", row.calls},
                {"cut_calls", row.cut_calls},
                {"gpu_records", row.gpu_records},
                {"self_cpu_ns", row.self_cpu_ns},
                {"cpu_total_ns", row.cpu_total_ns},
                {"cpu_avg_ns", Ns(row.CpuAverageNs())},
                {"cpu_p50_ns", Ns(row.cpu_p50_ns)},
                {"cpu_p99_ns", Ns(row.cpu_p99_ns)},
                {"self_gpu_ns", row.self_gpu_ns},
                {"gpu_total_ns", row.gpu_total_ns},
                {"gpu_avg_ns", Ns(row.GpuAverageNs())},
                {"gpu_p50_ns", Ns(row.gpu_p50_ns)},
                {"gpu_p99_ns", Ns(row.gpu_p99_ns)},
                {"gpu_busy_ns", row.gpu_busy_ns},
                {"gpu_exposed_ns", row.gpu_exposed_ns},
                {"above_next", row.above_next < 0 ? ordered_json() : ordered_json(row.above_next)}});
    rows.push_back(std::move(one));
  }
  ordered_json coverage;
  if (table.has_gpu && table.coverage.is_known)
    coverage = static_cast<double>(table.coverage.covered_ns) / static_cast<double>(table.coverage.ran_ns);
  ordered_json document;
  document["by"] = NameOf(table.by);
  document["window_ns"] = table.window_ns;
  document["totals"] = {{"rows", table.rows.size()},
                        {"self_cpu_ns", table.cpu_ns},
                        {"self_gpu_ns", table.gpu_ns},
                        {"gpu_busy_ns", table.gpu_busy_ns},
                        {"gpu_exposed_ns", table.gpu_exposed_ns}};
  document["rows"] = std::move(rows);
  document["coverage"] = std::move(coverage);
  document["damaged"] = table.is_damaged;
  document["losses"] = {{"events", table.losses}, {"known_events", table.lost_events}, {"gpu", table.gpu_losses}};
  document["resampled"] = table.resampled;
  document["spans"] = table.spans;
  document["other_members"] = table.other_members;
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

int Top(const TopArguments& arguments) {
  TopOptions options;
  options.by = kBys.at(arguments.by);
  options.groups_by_shape = arguments.groups_by_shape;
  if (!arguments.sort.empty()) options.sort = kSorts.at(arguments.sort);
  if (!arguments.request.empty()) {
    const char* const end = arguments.request.data() + arguments.request.size();
    const auto [read, error] = std::from_chars(arguments.request.data(), end, options.request_id, 16);
    if (error != std::errc() || read != end || options.request_id == 0) {
      Complain("--request: " + arguments.request + " is no request's id, which are hexadecimal: `pitot requests`");
      return kUsage;
    }
  }
  if (options.groups_by_shape && (options.by == TopBy::kLayer || options.by == TopBy::kRequest)) {
    Complain("--group-by-shape: a " + arguments.by + " has no shape; only with --by op, kernel or scope");
    return kUsage;
  }
  Trace trace;
  LoadReport report;
  const int loaded = Load(arguments.input, &trace, &report);
  if (loaded != kDone && loaded != kDamaged) return loaded;

  TopTable table;
  const Status status = analyze::FindTop(trace, options, &table);
  if (!status.ok() && status.code() != StatusCode::kNotFound) {
    Complain(status.message());
    return kUnreadable;
  }
  const auto limit = static_cast<size_t>(arguments.limit);
  const size_t shown = limit == 0 ? table.rows.size() : std::min(table.rows.size(), limit);
  if (arguments.json) {
    Print(Json(trace, table, shown));
  } else if (!table.rows.empty()) {
    Print(Table(table, shown, options.request_id != 0));
  }
  if (table.rows.empty()) {
    const std::string none = options.by == TopBy::kOperator ? "no operators and no GPU work are in "
                                                            : "nothing is there to count by " + arguments.by + " in ";
    Complain(status.ok() ? none + arguments.input : status.message());
    return loaded == kDamaged ? kDamaged : kNothingFound;
  }
  return loaded;
}

}  // namespace

void AddTop(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<TopArguments>();
  CLI::App* command = app.add_subcommand("top", "Says where the time went: CPU and GPU time, self and total");
  command->add_option("dump", arguments->input, kDumpHelp)->required();
  command->add_option("--by", arguments->by, "What has a row of its own")
      ->check(CLI::IsMember({"op", "kernel", "layer", "scope", "request"}))
      ->capture_default_str();
  command->add_flag("--group-by-shape", arguments->groups_by_shape,
                    "Operators apart by the shapes of their inputs, kernels by grid and block");
  command->add_option("--limit", arguments->limit, "At most so many rows; 0 is all")
      ->check(CLI::Range(int64_t{0}, int64_t{1000000000}))
      ->capture_default_str();
  command
      ->add_option("--sort", arguments->sort,
                   "By this column, largest first; else by self GPU time, without any by self CPU time")
      ->transform(SortName)
      ->check(CLI::IsMember({"self_cpu", "cpu_total", "cpu_avg", "self_gpu", "gpu_total", "gpu_avg", "gpu_busy",
                             "gpu_exposed", "calls", "p50", "p99", "name"}));
  command->add_option("--request", arguments->request,
                      "Only what ran for the request with this id, and for its batches");
  command->add_flag("--json", arguments->json, "For programs, in whole ns: docs/cli.md");
  command->callback([arguments, &exit_code] {
    arguments->input = DumpPath(arguments->input);
    exit_code = Top(*arguments);
  });
}

}  // namespace pitot::cli
