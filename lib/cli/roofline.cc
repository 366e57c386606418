// SPDX-License-Identifier: Apache-2.0
//
// `pitot roofline`: which peak of the GPU bounds each layer or operator, as a table or as a page with a picture.
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/files.h"
#include "cli/grid.h"
#include "cli/roof.h"
#include "model/ncu_command.h"
#include "pitot/analyze/roofline_html.h"
#include "pitot/analyze/top.h"

namespace pitot::cli {
namespace {

using analyze::TopBy;
using analyze::TopOptions;
using analyze::TopRow;
using analyze::TopTable;
using model::Trace;
using nlohmann::ordered_json;

struct RooflineArguments {
  std::string input, output;
  std::optional<std::string> by;
  std::optional<int64_t> limit;
  bool json = false;
  PeakArguments peaks;
};

bool IsMeasured(const TopRow& row) { return row.roof.compute_share >= 0 || row.roof.memory_share >= 0; }

// The rows with GPU work, the longest first.
Status FindRows(const Trace& trace, const RooflineArguments& arguments, TopBy by, TopTable* table) {
  TopOptions options;
  options.by = by;
  options.finds_roofs = true;
  options.groups_by_shape = by == TopBy::kOperator;
  options.peak_flop_per_s = arguments.peaks.tflops * 1e12;
  options.peak_bytes_per_s = arguments.peaks.gigabytes * 1e9;
  const Status status = analyze::FindTop(trace, options, table);
  std::vector<TopRow>& rows = table->rows;
  std::erase_if(rows, [](const TopRow& row) { return row.roof.gpu_ns == 0; });
  std::stable_sort(rows.begin(), rows.end(),
                   [](const TopRow& a, const TopRow& b) { return a.roof.gpu_ns > b.roof.gpu_ns; });
  return status;
}

// Layers; operators if no layer is known, or if they alone were measured.
Status FindTable(const Trace& trace, const RooflineArguments& arguments, TopTable* table) {
  const bool by_operator = arguments.by == "op";
  Status status = FindRows(trace, arguments, by_operator ? TopBy::kOperator : TopBy::kLayer, table);
  const auto any = [](const TopTable& of, const auto& has) { return std::any_of(of.rows.begin(), of.rows.end(), has); };
  const auto is_layer = [](const TopRow& row) { return row.name.substr(0, 1) != "("; };
  const bool has_layers = any(*table, is_layer);
  if (!status.ok() || arguments.by || any(*table, [&](const TopRow& row) { return is_layer(row) && IsMeasured(row); }))
    return status;
  TopTable operators;
  status = FindRows(trace, arguments, TopBy::kOperator, &operators);
  if (status.ok() && (any(operators, IsMeasured) || (!has_layers && !operators.rows.empty())))
    *table = std::move(operators);
  return status;
}

std::string TextOf(const TopTable& table, size_t shown) {
  std::vector<Column> columns;
  const auto add = [&](const char* above, const char* title, const auto& cell) {
    columns.push_back({above, title, {}});
    for (size_t i = 0; i < shown; ++i) columns.back().cells.push_back(cell(table.rows[i]));
  };
  int64_t total_ns = 0;
  for (const TopRow& row : table.rows) total_ns += row.roof.gpu_ns;
  add("", "Name", [](const TopRow& row) { return row.name; });
  columns.back().is_text = true;
  const bool has_shapes =
      std::any_of(table.rows.begin(), table.rows.end(), [](const TopRow& row) { return !row.shape.empty(); });
  if (has_shapes) {
    add("", "Input Shapes", [](const TopRow& row) { return row.shape; });
    columns.back().is_text = true;
  }
  add("GPU", "time", [](const TopRow& row) { return (row.roof.has_spans ? "<" : "") + Time(row.roof.gpu_ns); });
  add("GPU", "%", [&](const TopRow& row) { return Share(row.roof.gpu_ns, total_ns); });
  add("", "type", [](const TopRow& row) { return *row.roof.precision == '\0' ? "-" : row.roof.precision; });
  add("", "flop/s", [](const TopRow& row) { return FlopRate(row.roof); });
  add("of the", "roof",
      [](const TopRow& row) { return row.roof.flop_per_s < 0 ? "-" : PercentOf(row.roof.compute_share); });
  add("Tensor", "active", [](const TopRow& row) { return PercentOf(row.roof.tensor_share); });
  add("SMs", "active", [](const TopRow& row) { return PercentOf(row.roof.sm_share); });
  add("DRAM", "bytes/s", [](const TopRow& row) { return ByteRate(row.roof); });
  add("of the", "roof", [](const TopRow& row) { return PercentOf(row.roof.memory_share); });
  add("flop/", "byte", [](const TopRow& row) { return Intensity(row.roof); });
  add("Binding", "roof", [](const TopRow& row) { return BindingRoof(row.roof); });
  return Grid(std::move(columns), WrapWidth(kTopColumns));
}

// Why no row has a share of a roof; "" if one has.
std::string WhyUnknown(const TopTable& table) {
  if (std::any_of(table.rows.begin(), table.rows.end(), IsMeasured)) return "";
  if (std::any_of(table.rows.begin(), table.rows.end(), [](const TopRow& row) { return row.roof.flop_per_s >= 0; }))
    return "";
  return "no row has operators with recorded shapes and flops (TorchOptions::shapes), or two samples of hardware "
         "counters in its GPU time (pitot::counters; a shorter CounterOptions::interval_us gives more of them)";
}

std::string KernelAdvice(const Trace& trace, size_t columns) {
  const model::StringId kernel = model::LongestKernel(trace);
  if (kernel == 0) return "";
  base::Lines lines(columns);
  lines.AddWrapped(0, "",
                   "To measure the longest kernel with Nsight Compute, which needs the hardware counters for itself:");
  lines.AddCommand(2, "", NcuCommand(trace, kernel));
  return lines.text();
}

std::string Text(const Trace& trace, const TopTable& table, size_t shown) {
  std::string text = TextOf(table, shown);
  const auto line = [&](const std::string& words) {
    base::Lines lines(WrapWidth(base::kColumns));
    lines.AddWrapped(0, "", words);
    text += lines.text();
  };
  if (const std::string note = RoofNote(table); !note.empty()) line(note);
  if (const std::string why = WhyUnknown(table); !why.empty()) line("note: " + why);
  if (std::any_of(table.rows.begin(), table.rows.end(), [](const TopRow& row) { return row.roof.has_spans; }))
    line("note: GPU times after \"<\" are by CUDA events: they include gaps between kernels");
  if (shown < table.rows.size())
    line(std::to_string(shown) + " of " + std::to_string(table.rows.size()) + " rows; --limit 0 shows all");
  return text + KernelAdvice(trace, WrapWidth(base::kColumns));
}

std::string RooflineJson(const Trace& trace, const TopTable& table, size_t shown) {
  ordered_json rows = ordered_json::array();
  for (size_t i = 0; i < shown; ++i) {
    const TopRow& row = table.rows[i];
    rows.push_back({{"name", row.name},
                    {"shape", row.shape.empty() ? ordered_json() : ordered_json(row.shape)},
                    {"calls", row.calls},
                    {"roof", RoofJson(row.roof)}});
  }
  const model::StringId kernel = model::LongestKernel(trace);
  const ordered_json document = {{"by", table.by == TopBy::kLayer ? "layer" : "op"},
                                 {"window_ns", table.window_ns},
                                 {"devices", PeaksJson(table)},
                                 {"rows", std::move(rows)},
                                 {"ncu", kernel == 0 ? ordered_json() : ordered_json(NcuCommand(trace, kernel))}};
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

class Page : public Serializer {
 public:
  explicit Page(const TopTable& table) : table_(table) {}
  const char* FileName() const noexcept override { return "roofline.html"; }
  Status Serialize(const Trace& trace, ByteSink& sink) override {
    const std::string text = analyze::RooflineHtml(trace, table_, KernelAdvice(trace, base::kColumns));
    return sink.Write(text.data(), text.size()) ? Status()
                                                : Status(StatusCode::kIoError, "the sink accepts no more data");
  }

 private:
  const TopTable& table_;
};

int Roofline(const RooflineArguments& arguments) {
  Trace trace;
  LoadReport report;
  const int loaded = Load(arguments.input, &trace, &report);
  if (loaded != kDone && loaded != kDamaged) return loaded;
  if (!arguments.output.empty() && !IsNoInput(report.paths, arguments.output)) return kUsage;
  TopTable table;
  if (const Status status = FindTable(trace, arguments, &table); !status.ok()) {
    Complain(status.message());
    return kUnreadable;
  }
  const auto limit = static_cast<size_t>(arguments.limit.value_or(arguments.json ? 0 : kRowsForPeople));
  const size_t shown = limit == 0 ? table.rows.size() : std::min(table.rows.size(), limit);
  if (arguments.json) Print(RooflineJson(trace, table, shown));
  if (table.rows.empty()) {
    Complain("no GPU work of layers or operators is in " + arguments.input + ": " +
             HowToRecord(report, "kernel",
                         "pitot::gpu::Enable times layers, and CUPTI's collector records kernels (docs/guide/gpu.md)"));
    return ExitCodeOf(loaded, kNothingFound);
  }
  if (!arguments.output.empty()) {
    Page page(table);
    uint64_t bytes = 0;
    const int written = WriteFile(page, trace, arguments.output, &bytes);
    return written != kDone ? written : loaded;
  }
  if (!arguments.json) Print(Text(trace, table, shown));
  return loaded;
}

}  // namespace

void AddRoofline(CommandLine& line) {
  auto arguments = std::make_shared<RooflineArguments>();
  const Command command = line.Command(
      "roofline", "Shows what bounds each layer: computing or memory, and how close it comes to that roof");
  command.Add("dump", &arguments->input, kDumpHelp).Required();
  command.Add("-o,--output", &arguments->output, "Write one page for a browser, with pictures, to this file");
  command.Add("--by", &arguments->by, "One row for each of these [layer; op if no layer is known]")
      .OneOf({"layer", "op"});
  command.Add("--limit", &arguments->limit, "Number of rows; 0 shows all [20; with --json all]").Whole(0, 1000000000);
  AddPeaks(command, &arguments->peaks);
  command.AddFlag("--json", &arguments->json, "For programs: docs/reference/cli.md");
  command.Run([arguments] {
    arguments->input = DumpPath(arguments->input);
    return Roofline(*arguments);
  });
}

}  // namespace pitot::cli
