// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/top.h"

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/columns.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/files.h"
#include "cli/grid.h"
#include "cli/request_id.h"
#include "cli/roof.h"
#include "model/kernel_name.h"

namespace pitot::cli {
namespace {

using analyze::TopBy;
using analyze::TopOptions;
using analyze::TopRoof;
using analyze::TopRow;
using analyze::TopSort;
using analyze::TopTable;
using model::Trace;
using nlohmann::ordered_json;

const std::map<std::string, TopBy> kBys = {{"op", TopBy::kOperator}, {"kernel", TopBy::kKernel},
                                           {"layer", TopBy::kLayer}, {"scope", TopBy::kScope},
                                           {"call", TopBy::kCall},   {"request", TopBy::kRequest}};
// As the fields of --json, without the unit.
const std::map<std::string, TopSort> kSorts = {{"self_cpu", TopSort::kSelfCpu},
                                               {"self_wait", TopSort::kSelfWait},
                                               {"self_no_calls", TopSort::kSelfNoCalls},
                                               {"cpu_total", TopSort::kCpuTotal},
                                               {"cpu_avg", TopSort::kCpuAverage},
                                               {"cpu_p50", TopSort::kCpuP50},
                                               {"cpu_p99", TopSort::kCpuP99},
                                               {"cpu_max", TopSort::kCpuMax},
                                               {"self_gpu", TopSort::kSelfGpu},
                                               {"gpu_total", TopSort::kGpuTotal},
                                               {"gpu_avg", TopSort::kGpuAverage},
                                               {"gpu_p50", TopSort::kGpuP50},
                                               {"gpu_p99", TopSort::kGpuP99},
                                               {"gpu_busy", TopSort::kGpuBusy},
                                               {"gpu_exposed", TopSort::kGpuExposed},
                                               {"gpu_records", TopSort::kGpuRecords},
                                               {"calls", TopSort::kCalls},
                                               {"flops", TopSort::kFlops},
                                               {"p50", TopSort::kP50},
                                               {"p99", TopSort::kP99},
                                               {"name", TopSort::kName}};

template <class Value> std::vector<std::string> Keys(const std::map<std::string, Value>& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  return keys;
}

struct TopArguments {
  std::vector<std::string> inputs;  // `input`: their names, for messages
  std::string input, sort, request;
  std::optional<std::string> by;
  std::optional<int64_t> limit;
  int64_t width = kTopColumns;
  bool groups_by_shape = false, json = false;
  PeakArguments peaks;
};

std::string NameOf(TopBy by) {
  return std::find_if(kBys.begin(), kBys.end(), [&](const auto& entry) { return entry.second == by; })->first;
}

// Titles of the table's columns, "Self CUDA %" and "Host time avg", as "self_gpu" and "cpu_avg". PyTorch's titles say
// CPU for host.
std::string SortName(const std::string& column) {
  const std::string words = absl::StrReplaceAll(absl::AsciiStrToLower(column), {{" ", "_"}});
  return absl::StrReplaceAll(words, {{"cuda", "gpu"},
                                     {"host", "cpu"},
                                     {"_time_avg", "_avg"},
                                     {"#_of_", ""},
                                     {"_%", ""},
                                     {"total_flops", "flops"},
                                     {"total_gflops", "flops"},
                                     {"waiting", "wait"}});
}

// The part of a name in which it differs from the others, in whole words: "CUDAFunctor_add<float>".
std::string DifferenceOf(std::string_view name, const std::vector<std::string_view>& names) {
  size_t before = name.size(), after = name.size();
  for (const std::string_view other : names) {
    if (other == name) continue;
    const auto first = std::mismatch(name.begin(), name.end(), other.begin(), other.end());
    before = std::min(before, static_cast<size_t>(first.first - name.begin()));
    const auto last = std::mismatch(name.rbegin(), name.rend(), other.rbegin(), other.rend());
    after = std::min(after, static_cast<size_t>(last.first - name.rbegin()));
  }
  const auto is_word = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  while (before > 0 && is_word(name[before - 1])) --before;
  size_t end = std::max(before, name.size() - after);
  while (end < name.size() && is_word(name[end])) ++end;
  return std::string(name.substr(before, end - before));
}

// Shows kernels by their brief names, because full names have hundreds of letters. Kernels with the same brief name
// (instantiations of a template) also show the part in which their full names differ. All rows are compared, so the
// number of shown rows changes nothing.
void AddNames(const TopTable& table, size_t shown, Column* column) {
  std::map<std::string, std::vector<std::string_view>> alike;
  const auto key_of = [](const TopRow& row) { return row.brief_name + '\n' + row.shape; };
  for (const TopRow& row : table.rows) alike[key_of(row)].push_back(row.name);
  for (size_t i = 0; i < shown; ++i) {
    const TopRow& row = table.rows[i];
    const std::vector<std::string_view>& names = alike[key_of(row)];
    const bool is_brief = !row.brief_name.empty();
    column->cells.push_back(is_brief ? row.brief_name : row.name);
    column->ends.push_back(is_brief && names.size() > 1 ? "<" + DifferenceOf(row.name, names) + ">" : "");
  }
}

// Makes the columns for the rows of a table, from left to right.
class ColumnMaker {
 public:
  ColumnMaker(const TopTable& table, size_t shown) : table_(table), shown_(shown) {}
  std::vector<Column> Make() {
    AddName();
    AddShape();
    if (!is_kernel_) AddSelfCpu();
    if (HasCalls() && !is_brief_)
      AddExtra("Self", "no calls", [](const TopRow& row) { return Time(row.self_no_calls_ns); });
    if (table_.wait_ns != 0 && !is_brief_)
      AddExtra("Self", "waiting", [](const TopRow& row) { return Time(row.self_wait_ns); });
    if (!is_kernel_ && !is_request_) AddCpu();
    if (has_gpu_) AddGpu();
    AddNumbers();
    AddQuantiles();
    if (is_call_) Add("Host", "max", [](const TopRow& row) { return Time(row.cpu_max_ns); });
    AddGpuQuantiles();
    if (has_gpu_ && (is_kernel_ || is_request_))
      Add("CUDA", "busy", [](const TopRow& row) { return IfKnown(row, Time(row.gpu_busy_ns)); });
    AddFlops();
    if (table_.span_ns != 0)
      Add("CUDA", "events", [](const TopRow& row) { return row.spans == 0 ? "-" : Time(row.span_ns); });
    AddRoofs();
    AddOccupancy();
    if (has_gpu_) Add("CUDA", "exposed", [](const TopRow& row) { return IfKnown(row, Time(row.gpu_exposed_ns)); });
    return std::move(columns_);
  }

 private:
  template <class Cell> void Add(const char* above, const char* title, const Cell& cell) {
    columns_.push_back({above, title, {}});
    for (size_t i = 0; i < shown_; ++i) columns_.back().cells.push_back(cell(table_.rows[i]));
  }
  template <class Cell> void AddExtra(const char* above, const char* title, const Cell& cell) {
    Add(above, title, cell);
    columns_.back().is_extra = true;
  }
  // Whether calls take time of operators.
  bool HasCalls() const {
    return is_host_ && table_.by != TopBy::kLayer &&
           std::any_of(table_.rows.begin(), table_.rows.end(), [](const TopRow& row) {
             return row.self_no_calls_ns != 0 && row.self_no_calls_ns != row.self_cpu_ns;
           });
  }
  bool HasShapes() const {
    return std::any_of(table_.rows.begin(), table_.rows.begin() + static_cast<int64_t>(shown_),
                       [](const TopRow& row) { return !row.shape.empty(); });
  }
  void AddName() {
    columns_.push_back({"", "Name", {}, true});
    AddNames(table_, shown_, &columns_.back());
  }
  void AddShape() {
    if (!has_shapes_) return;
    Add("", is_kernel_ ? "Launched as" : "Input Shapes", [](const TopRow& row) { return row.shape; });
    columns_.back().is_text = true;
  }
  void AddSelfCpu() {
    const auto cell = [](const TopRow& row, const std::string& text) { return row.is_cpu_known ? text : "-"; };
    if (!is_brief_)
      Add("Self", "host %", [&](const TopRow& row) { return cell(row, Share(row.self_cpu_ns, table_.cpu_ns)); });
    Add("Self", "host", [&](const TopRow& row) { return cell(row, Time(row.self_cpu_ns)); });
  }
  void AddCpu() {
    if (!is_brief_) Add("Host", "total %", [&](const TopRow& row) { return Share(row.cpu_total_ns, table_.cpu_ns); });
    Add("Host", "total", [](const TopRow& row) { return Time(row.cpu_total_ns); });
    Add("Host", "time avg", [](const TopRow& row) { return Time(row.CpuAverageNs()); });
  }
  // "-" if it was not recorded.
  static std::string IfKnown(const TopRow& row, const std::string& cell) { return row.is_gpu_known ? cell : "-"; }
  void AddGpu() {
    Add("Self", "CUDA", [](const TopRow& row) { return IfKnown(row, Time(row.self_gpu_ns)); });
    Add("Self", "CUDA %", [&](const TopRow& row) { return IfKnown(row, Share(row.self_gpu_ns, table_.gpu_ns)); });
    if (is_request_ || is_call_) return;
    if (!is_kernel_) Add("CUDA", "total", [](const TopRow& row) { return Time(row.gpu_total_ns); });
    Add("CUDA", "time avg", [](const TopRow& row) { return Time(row.GpuAverageNs()); });
  }
  void AddNumbers() {
    if (!is_request_) {
      Add("# of", "Calls", [](const TopRow& row) { return row.calls == 0 ? "-" : std::to_string(row.calls); });
    } else if (has_gpu_) {
      Add("GPU", "records", [](const TopRow& row) { return IfKnown(row, std::to_string(row.gpu_records)); });
    }
  }
  void AddQuantiles() {
    if (is_request_ || is_brief_) return;
    const char* const above = is_kernel_ ? "CUDA" : "Host";
    Add(above, "p50", [&](const TopRow& row) { return Time(is_kernel_ ? row.gpu_p50_ns : row.cpu_p50_ns); });
    Add(above, "p99", [&](const TopRow& row) { return Time(is_kernel_ ? row.gpu_p99_ns : row.cpu_p99_ns); });
  }
  void AddGpuQuantiles() {
    if (!has_gpu_ || !is_host_ || is_brief_) return;
    AddExtra("CUDA", "p50", [](const TopRow& row) { return Time(row.gpu_p50_ns); });
    AddExtra("CUDA", "p99", [](const TopRow& row) { return Time(row.gpu_p99_ns); });
  }
  void AddFlops() {
    const auto has_flops = [](const TopRow& row) { return row.flops != 0; };
    if (!has_shapes_ || !std::any_of(table_.rows.begin(), table_.rows.end(), has_flops)) return;
    Add("Total", "FLOPs",
        [](const TopRow& row) { return row.flops == 0 ? "-" : Prefixed(static_cast<double>(row.flops)); });
  }

  bool HasRoof(double TopRoof::*value) const {
    return table_.by == TopBy::kLayer &&
           std::any_of(table_.rows.begin(), table_.rows.end(), [&](const TopRow& row) { return row.roof.*value >= 0; });
  }
  void AddRoofs() {
    if (HasRoof(&TopRoof::flop_per_s)) Add("", "flop/s", [](const TopRow& row) { return FlopRate(row.roof); });
    if (HasRoof(&TopRoof::bytes_per_s)) Add("DRAM", "bytes/s", [](const TopRow& row) { return ByteRate(row.roof); });
    if (HasRoof(&TopRoof::flop_per_byte)) Add("flop/", "byte", [](const TopRow& row) { return Intensity(row.roof); });
    if (HasRoof(&TopRoof::memory_share) || HasRoof(&TopRoof::compute_share))
      Add("Binding", "roof", [](const TopRow& row) { return BindingRoof(row.roof); });
  }
  void AddOccupancy() {
    if (!is_kernel_ || table_.rows.end() == std::find_if(table_.rows.begin(), table_.rows.end(),
                                                         [](const TopRow& row) { return row.occupancy_percent >= 0; }))
      return;
    AddExtra("Occu-", "pancy", OccupancyOf);
    AddExtra("limited", "by",
             [](const TopRow& row) { return *row.occupancy_limit == '\0' ? "-" : row.occupancy_limit; });
  }

  const TopTable& table_;
  const size_t shown_;
  const bool has_gpu_ = table_.gpu_ns != 0;
  const bool is_kernel_ = table_.by == TopBy::kKernel, is_request_ = table_.by == TopBy::kRequest,
             is_call_ = table_.by == TopBy::kCall;
  const bool is_host_ = !is_kernel_ && !is_request_ && !is_call_;  // operators, layers or scopes
  const bool has_shapes_ = HasShapes();
  // Shapes and roofs need room; --json has the omitted columns, too.
  const bool is_brief_ = (has_shapes_ && has_gpu_ && !is_kernel_) || HasRoof(&TopRoof::memory_share) ||
                         HasRoof(&TopRoof::compute_share) || HasRoof(&TopRoof::flop_per_s);
  std::vector<Column> columns_;
};

// The share of the time with recorded operators; "" if unknown.
std::string OperatorsNote(const model::OperatorCoverage& operators, const std::string& of) {
  if (!operators.is_known) return "";
  const std::string note =
      "operators were recorded in " + base::Coverage(operators.covered_ns, operators.ran_ns) + " of " + of;
  if (operators.batches == 0) return note;
  return note + absl::StrFormat(" (%d of %d batches)", operators.recorded_batches, operators.batches);
}

// The share of the time with recorded kernels.
std::string KernelsNote(const model::KernelCoverage& coverage, const std::string& of) {
  if (!coverage.is_known) return "the share of " + of + " with recorded kernels is not known";
  return "kernels were recorded in " + base::Coverage(coverage.covered_ns, coverage.ran_ns) + " of " + of;
}

// Parts of the work that the rows lack.
std::vector<std::string> MissingNotes(const TopTable& table) {
  std::vector<std::string> notes;
  if (table.is_damaged) notes.push_back("the dump is damaged: times are incomplete");
  if (table.losses != 0)
    notes.push_back("events were lost (" + base::Plural(table.losses, "loss") +
                    (table.lost_events != 0 ? ", " + base::Plural(table.lost_events, "event") + " known" : "") + ")");
  if (table.gpu_losses != 0) notes.push_back("GPU records were lost (" + base::Plural(table.gpu_losses, "loss") + ")");
  if (table.by == TopBy::kRequest) return notes;
  if (table.spans != 0 && table.by != TopBy::kLayer)
    notes.push_back(base::Plural(table.spans, "span") + " by CUDA events " + (table.spans == 1 ? "is" : "are") +
                    " not counted");
  if (table.other_members != 0)
    notes.push_back("its batches are shared with " + base::Plural(table.other_members, "other request"));
  return notes;
}

// Why no layer has time on a GPU; "" if one has.
std::string NoLayersNote(const Trace& trace, const TopTable& table) {
  if (table.by != TopBy::kLayer || table.spans != 0 || table.gpu_ns != 0) return "";
  std::string why(trace.AttributeOf("counters.no_gpu"));
  if (why.empty() && !trace.AttributeOf("cuda_events.before_driver").empty())
    why = "the process had not loaded CUDA's driver";
  return "no layer was timed on a GPU" + (why.empty() ? "" : " (" + why + ")") +
         "; `pitot doctor` says what the server's machine allows";
}

std::string Notes(const Trace& trace, const TopTable& table, bool is_of_request) {
  std::vector<std::string> notes;
  const std::string of = is_of_request ? "the request's time" : "the window";
  if (table.by == TopBy::kOperator || table.by == TopBy::kScope) notes.push_back(OperatorsNote(table.operators, of));
  // Rows such as "(launch unknown)" are of none.
  const bool has_operators =
      std::any_of(table.rows.begin(), table.rows.end(), [](const analyze::TopRow& row) { return row.name[0] != '('; });
  if (table.by == TopBy::kOperator && table.cpu_ns == 0 && !has_operators)
    notes.push_back(
        "there are no operators; `--by kernel`, `--by scope` and `--by request` show the time without them");
  notes.push_back(NoLayersNote(trace, table));
  if (table.has_gpu) notes.push_back(KernelsNote(table.coverage, of));
  if (std::any_of(table.rows.begin(), table.rows.end(),
                  [&](const TopRow& row) { return !row.is_cpu_known || (table.gpu_ns != 0 && !row.is_gpu_known); }))
    notes.push_back("-: not recorded");
  for (std::string& note : MissingNotes(table)) notes.push_back(std::move(note));
  notes.erase(std::remove(notes.begin(), notes.end(), ""), notes.end());
  return absl::StrJoin(notes, "; ");
}

// Names the shown ranks that may just as well be the other way round. "" if unknown.
std::string Order(const TopTable& table, size_t shown) {
  constexpr double kSure = 0.95;
  size_t known = 0;  // the number of first rows with known order relative to the next row
  while (known + 1 < shown && table.rows[known].above_next >= 0) ++known;
  if (known == 0) return {};
  std::string alike;
  for (size_t first = 0, last; first < known; first = last + 1) {
    for (last = first; last < known && table.rows[last].above_next < kSure;) ++last;
    if (last > first) alike += base::Format("%s%zu-%zu", alike.empty() ? "" : ", ", first + 1, last + 1);
  }
  const std::string drawn = " (95 %, by resamples of " + base::Count(table.resampled) + " requests, batches or steps)";
  if (!alike.empty()) return "order: ranks " + alike + " are too close to call" + drawn;
  return "order: ranks 1-" + std::to_string(known + 1) + " are sure" + drawn;
}

std::string Table(const Trace& trace, const TopTable& table, size_t shown, const TopArguments& arguments) {
  const bool is_of_request = !arguments.request.empty();
  const size_t width = arguments.width == 0 ? kNoWidth : static_cast<size_t>(arguments.width);
  std::string text = Grid(ColumnMaker(table, shown).Make(), width);
  const auto line = [&](const std::string& words) {
    base::Lines lines(WrapWidth(base::kColumns));
    lines.AddWrapped(0, "", words);
    text += lines.text();
  };
  const bool is_cpu_known =
      std::any_of(table.rows.begin(), table.rows.end(), [](const TopRow& row) { return row.is_cpu_known; });
  if (table.by != TopBy::kKernel && is_cpu_known)
    line("Self host time total: " + Time(table.cpu_ns) +
         (table.wait_ns != 0 ? ", " + Time(table.wait_ns) + " of it waiting" : ""));
  if (table.gpu_ns != 0)
    line("Self CUDA time total: " + Time(table.gpu_ns) + ", busy " + Time(table.gpu_busy_ns) + ", exposed " +
         Time(table.gpu_exposed_ns));
  if (const std::string order = Order(table, shown); !order.empty()) line(order);
  if (table.by == TopBy::kLayer)
    if (const std::string how = RoofNote(table); !how.empty()) line(how);
  if (const std::string notes = Notes(trace, table, is_of_request); !notes.empty()) line("note: " + notes);
  if (shown < table.rows.size()) line(absl::StrFormat("%d of %d rows; --limit 0 shows all", shown, table.rows.size()));
  return text;
}

ordered_json Ns(int64_t ns) { return ns == TopRow::kUnset ? ordered_json() : ordered_json(ns); }

ordered_json Json(const model::OperatorCoverage& operators) {
  if (!operators.is_known) return {};
  return {{"coverage", static_cast<double>(operators.covered_ns) / static_cast<double>(operators.ran_ns)},
          {"batches", operators.batches},
          {"recorded_batches", operators.recorded_batches}};
}

// The keys of some tables only.
void AddJson(const TopRow& row, TopBy by, ordered_json* one) {
  if (by == TopBy::kKernel) {
    const bool is_known = row.occupancy_percent >= 0;
    (*one)["occupancy_percent"] = is_known ? ordered_json(row.occupancy_percent) : ordered_json();
    (*one)["occupancy_limit"] = *row.occupancy_limit != '\0' ? ordered_json(row.occupancy_limit) : ordered_json();
  }
  if (by != TopBy::kLayer) return;
  (*one)["spans"] = row.spans;
  (*one)["span_ns"] = row.spans == 0 ? ordered_json() : ordered_json(row.span_ns);
  (*one)["roof"] = RoofJson(row.roof);
}

std::string Json(const Trace& trace, const TopTable& table, size_t shown) {
  const auto wait = [&](int64_t ns) { return table.by == TopBy::kRequest ? ordered_json() : ordered_json(ns); };
  const bool has_no_calls = table.by == TopBy::kOperator || table.by == TopBy::kScope;
  ordered_json rows = ordered_json::array();
  for (size_t i = 0; i < shown; ++i) {
    const TopRow& row = table.rows[i];
    const auto cpu = [&](ordered_json value) { return row.is_cpu_known ? value : ordered_json(); };
    const auto gpu = [&](ordered_json value) { return row.is_gpu_known ? value : ordered_json(); };
    ordered_json one = {{"name", row.name}};
    if (table.by == TopBy::kRequest) {
      const bool has_id = row.request != model::kNone;
      one["request"] = has_id ? ordered_json(base::RequestId(trace.requests[row.request].id)) : ordered_json();
    }
    one.update({{"shape", row.shape.empty() ? ordered_json() : ordered_json(row.shape)},
                {"calls", row.calls},
                {"cut_calls", row.cut_calls},
                {"gpu_records", gpu(row.gpu_records)},
                {"flops", row.flops},
                {"self_cpu_ns", cpu(row.self_cpu_ns)},
                {"self_wait_ns", wait(row.self_wait_ns)},
                {"self_no_calls_ns", has_no_calls ? ordered_json(row.self_no_calls_ns) : ordered_json()},
                {"cpu_total_ns", cpu(row.cpu_total_ns)},
                {"cpu_avg_ns", cpu(Ns(row.CpuAverageNs()))},
                {"cpu_p50_ns", Ns(row.cpu_p50_ns)},
                {"cpu_p99_ns", Ns(row.cpu_p99_ns)},
                {"cpu_max_ns", Ns(row.cpu_max_ns)},
                {"self_gpu_ns", gpu(row.self_gpu_ns)},
                {"gpu_total_ns", gpu(row.gpu_total_ns)},
                {"gpu_avg_ns", gpu(Ns(row.GpuAverageNs()))},
                {"gpu_p50_ns", Ns(row.gpu_p50_ns)},
                {"gpu_p99_ns", Ns(row.gpu_p99_ns)},
                {"gpu_busy_ns", gpu(row.gpu_busy_ns)},
                {"gpu_exposed_ns", gpu(row.gpu_exposed_ns)},
                {"above_next", row.above_next < 0 ? ordered_json() : ordered_json(row.above_next)}});
    AddJson(row, table.by, &one);
    rows.push_back(std::move(one));
  }
  ordered_json coverage;
  if (table.has_gpu && table.coverage.is_known)
    coverage = static_cast<double>(table.coverage.covered_ns) / static_cast<double>(table.coverage.ran_ns);
  ordered_json document;
  document["by"] = NameOf(table.by);
  document["window_ns"] = table.window_ns;
  document["totals"] = {{"rows", table.rows.size()},           {"self_cpu_ns", table.cpu_ns},
                        {"self_wait_ns", wait(table.wait_ns)}, {"self_gpu_ns", table.gpu_ns},
                        {"gpu_busy_ns", table.gpu_busy_ns},    {"gpu_exposed_ns", table.gpu_exposed_ns}};
  document["rows"] = std::move(rows);
  if (table.by == TopBy::kLayer) document["devices"] = PeaksJson(table);
  document["coverage"] = std::move(coverage);
  document["operators"] = Json(table.operators);
  document["damaged"] = table.is_damaged;
  document["losses"] = {{"events", table.losses}, {"known_events", table.lost_events}, {"gpu", table.gpu_losses}};
  document["resampled"] = table.resampled;
  document["spans"] = table.spans;
  document["other_members"] = table.other_members;
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

const char* WhoRecords(TopBy by) {
  switch (by) {
    case TopBy::kOperator:
      return "LibTorch's collector records operators at depth ops (docs/guide/torch.md).";
    case TopBy::kKernel:
      return "CUPTI's collector records kernels at depth kernels (docs/guide/kernels.md).";
    case TopBy::kLayer:
      return "layers are the host's scopes. CUDA events time them (docs/guide/gpu.md), or LibTorch's collector records "
             "operators in them (docs/guide/torch.md).";
    case TopBy::kScope:
      return "PITOT_SCOPE records them (docs/guide/instrument.md).";
    case TopBy::kCall:
      return "the collector of CUDA calls records those that wait, allocate or load code, at any depth "
             "(docs/guide/cuda_calls.md); CUPTI's records all, at depth kernels.";
    case TopBy::kRequest:
      return "Request::Begin records them (docs/guide/instrument.md).";
  }
  return "";
}

bool WereNotAllRecorded(const model::OperatorCoverage& operators) {
  return operators.is_known && operators.covered_ns != operators.ran_ns;
}

// Other rows that the trace has; "" if there are none.
std::string OtherRows(const Trace& trace, TopOptions options) {
  for (const TopBy by : {TopBy::kScope, TopBy::kRequest}) {
    TopTable table;
    options.by = by;
    if (analyze::FindTop(trace, options, &table).ok() && !table.rows.empty())
      return " `--by " + NameOf(by) + "` counts its " + NameOf(by) + "s.";
  }
  return "";
}

std::string WhyNothing(const Trace& trace, const TopTable& table, const TopArguments& arguments,
                       const TopOptions& options, const LoadReport& report) {
  const std::string of = arguments.request.empty() ? "" : "of request " + arguments.request + " ";
  if (table.by != TopBy::kOperator)
    return "there is nothing " + of + "to count by " + NameOf(table.by) + " in " + arguments.input + ": " +
           HowToRecord(report, NameOf(table.by), WhoRecords(table.by));
  const model::OperatorCoverage& operators = table.operators;
  if (WereNotAllRecorded(operators)) {
    const std::string time = of.empty() ? "the window" : "the time of request " + arguments.request;
    return (operators.covered_ns == 0
                ? "operators were not recorded in " + time
                : "operators were recorded in only " + base::Coverage(operators.covered_ns, operators.ran_ns) + " of " +
                      time + ", and none ran there") +
           ": set depth ops with Options::depth or Recorder::SetDepth";
  }
  return "there are no operators and no GPU work " + of + "in " + arguments.input + ": " +
         HowToRecord(report, NameOf(table.by), WhoRecords(table.by)) + OtherRows(trace, options);
}

// False, with a message, if the arguments contradict each other.
bool TakeOptions(const TopArguments& arguments, TopOptions* options) {
  options->by = arguments.by.has_value() ? kBys.at(*arguments.by) : TopBy::kOperator;
  options->groups_by_shape = arguments.groups_by_shape;
  options->finds_roofs = options->by == TopBy::kLayer;
  options->finds_no_calls = true;
  options->peak_flop_per_s = arguments.peaks.tflops * 1e12;
  options->peak_bytes_per_s = arguments.peaks.gigabytes * 1e9;
  if (!arguments.sort.empty()) options->sort = kSorts.at(arguments.sort);
  const bool has_shapes = options->by != TopBy::kLayer && options->by != TopBy::kCall && options->by != TopBy::kRequest;
  if (has_shapes || !options->groups_by_shape) return true;
  Complain("--group-by-shape: a " + NameOf(options->by) + " has no shape; use --by op, kernel or scope");
  return false;
}

// Prints the rows, or why there are none. Returns kDone or kNothingFound.
int PrintRows(const Trace& trace, const TopTable& table, const TopArguments& arguments, const TopOptions& options,
              const LoadReport& report) {
  const auto limit = static_cast<size_t>(arguments.limit.value_or(arguments.json ? 0 : kRowsForPeople));
  const size_t shown = limit == 0 ? table.rows.size() : std::min(table.rows.size(), limit);
  if (arguments.json) {
    Print(Json(trace, table, shown));
  } else if (!table.rows.empty()) {
    Print(Table(trace, table, shown, arguments));
  }
  const bool has_shapes =
      std::any_of(table.rows.begin(), table.rows.end(), [](const analyze::TopRow& row) { return !row.shape.empty(); });
  if (arguments.groups_by_shape && table.by == TopBy::kOperator && !table.rows.empty() && !has_shapes)
    Complain("no operator of " + arguments.input + " has sizes of inputs: " +
             HowToRecord(report, "shapes", "TorchOptions::shapes records them (docs/guide/torch.md)."));
  if (!table.rows.empty()) return kDone;
  Complain(WhyNothing(trace, table, arguments, options, report));
  return kNothingFound;
}

// Without --by, scopes take the place of operators if there are none. Programs get the rows they expect, or none.
Status FindRows(const Trace& trace, const TopArguments& arguments, TopOptions options, TopTable* table) {
  Status status = analyze::FindTop(trace, options, table);
  if (!status.ok() || !table->rows.empty() || arguments.by.has_value() || arguments.json ||
      WereNotAllRecorded(table->operators))
    return status;
  options.by = TopBy::kScope;
  TopTable scopes;
  status = analyze::FindTop(trace, options, &scopes);
  if (!status.ok() || scopes.rows.empty()) return status;
  Complain("there are no operators and no GPU work" +
           (arguments.request.empty() ? "" : " of request " + arguments.request) + " in " + arguments.input +
           ": the rows are scopes (--by scope)");
  *table = std::move(scopes);
  return status;
}

int Top(const TopArguments& arguments) {
  TopOptions options;
  if (!TakeOptions(arguments, &options)) return kUsage;
  Trace trace;
  LoadReport report;
  const int loaded = Load(arguments.inputs, &trace, &report);
  if (loaded != kDone && loaded != kDamaged) return loaded;
  const int found = FindId(trace, arguments.request, arguments.input, &options.request_id);
  if (found != kDone) return ExitCodeOf(loaded, found);
  TopTable table;
  const Status status = FindRows(trace, arguments, options, &table);
  if (!status.ok()) {
    Complain(status.message());
    return kUnreadable;
  }
  return ExitCodeOf(loaded, PrintRows(trace, table, arguments, options, report));
}

}  // namespace

void AddTop(CommandLine& line) {
  auto arguments = std::make_shared<TopArguments>();
  arguments->width = static_cast<int64_t>(WrapWidth(kTopColumns));
  const Command command = line.Command("top", "Shows where the time went: host and GPU time, self and total");
  command.Add("dump", &arguments->inputs, std::string(kDumpHelp) + kSeveralHelp).Required();
  command.Add("--by", &arguments->by, "One row for each of these [op; scope if there are no operators and no GPU work]")
      .OneOf(Keys(kBys));
  command.AddFlag("--group-by-shape", &arguments->groups_by_shape,
                  "Separate operators by the shapes of their inputs, kernels by grid and block");
  command.Add("--limit", &arguments->limit, "Number of rows; 0 shows all [20; with --json all]").Whole(0, 1000000000);
  command
      .Add("--sort", &arguments->sort,
           "Sort by this column, largest first. By default self GPU time; without any, and by call, self host time")
      .Transform(SortName)
      .OneOf(Keys(kSorts));
  command.Add("--width", &arguments->width, "Cut names to fit this many columns; 0 cuts none")
      .Whole(0, 1000000)
      .ShowDefault();
  command
      .Add("--request", &arguments->request,
           "Only work for the request with this id (the server's own or Pitot's, or the only id that begins so) and "
           "for its batches")
      .Check(IsSomeId);
  AddPeaks(command, &arguments->peaks);
  command.AddFlag("--json", &arguments->json, "For programs, in whole ns: docs/reference/cli.md");
  command.Run([arguments] {
    arguments->input = DumpPaths(&arguments->inputs);
    return Top(*arguments);
  });
}

}  // namespace pitot::cli
