// SPDX-License-Identifier: Apache-2.0
//
// How likely findings are true, by what was measured of their kind, and what follows for reports.
#include "analyze/catalogue/precision.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/gpu_loss_reason.h"
#include "pitot/analyze/judge.h"
#include "pitot/analyze/report_html.h"
#include "pitot/model/trace.h"

namespace {

using pitot::Analysis;
using pitot::Analyzer;
using pitot::AnalyzerInfo;
using pitot::Finding;
using pitot::Severity;
using pitot::Status;
using pitot::analyze::AnalysisReport;
using pitot::analyze::FindingRow;
using pitot::catalogue::Calibrate;
using pitot::catalogue::MeasuredPrecision;
using pitot::catalogue::PrecisionCount;
using pitot::catalogue::PrecisionTable;
using pitot::catalogue::Size;

constexpr PrecisionCount kCounts[] = {{"a05.input_bound", Size::kSmall, 1, 18},
                                      {"a36.outliers", Size::kLarge, 17, 18},
                                      {"a36.outliers", Size::kSmall, 3, 18},
                                      {"a43.idle_energy", Size::kSmall, 0, 1}};
constexpr PrecisionTable kTable = {kCounts, std::size(kCounts)};
constexpr int64_t kWindowNs = 1000;

FindingRow Row(const char* code, double confidence, int64_t cost_ns = 0) {
  FindingRow row;
  row.code = code;
  row.summary = "found";
  row.severity = Severity::kHigh;
  row.confidence = confidence;
  row.cost_ns = cost_ns;
  return row;
}
FindingRow Calibrated(FindingRow row) {
  Calibrate(kTable, kWindowNs, &row);
  return row;
}

// Makes a finding of each measured kind.
class EachKind final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return {"t1", "a test", nullptr, 0}; }
  Status Run(Analysis& analysis) override {
    for (size_t i = 0; i < MeasuredPrecision().size; ++i) {
      Finding finding;
      finding.code = MeasuredPrecision().rows[i].code;
      finding.summary = "found";
      finding.severity = Severity::kHigh;
      finding.confidence = 0.8;
      finding.metric = MeasuredPrecision().rows[i].size == Size::kLarge ? "large" : "small";  // or they fold
      finding.cost_ns = MeasuredPrecision().rows[i].size == Size::kLarge ? kWindowNs : 0;
      analysis.Add(finding);
    }
    return Status();
  }
};

}  // namespace

TEST_CASE("a finding is as precise as its kind was, and its confidence counts as two more", "[precision]") {
  const FindingRow often = Calibrated(Row("a36.outliers", 0.5, 10)), seldom = Calibrated(Row("a05.input_bound", 0.9));
  CHECK(often.precision == Approx((17 + 2 * 0.5) / 20));
  CHECK(seldom.precision == Approx((1 + 2 * 0.9) / 20));
  CHECK(seldom.right_in == 1);
  CHECK(seldom.of_measured == 18);
  CHECK(seldom.confidence == 0.9);
  CHECK(!often.IsSilent());
  CHECK(seldom.IsSilent());
}

TEST_CASE("a finding of a hundredth of the window is as precise as large ones were, others as small ones",
          "[precision]") {
  CHECK(Calibrated(Row("a36.outliers", 0.5, 10)).right_in == 17);
  CHECK(Calibrated(Row("a36.outliers", 0.5, 9)).right_in == 3);
  CHECK(Calibrated(Row("a36.outliers", 0.5, 9)).IsSilent());
  CHECK(Calibrated(Row("a43.idle_energy", 0.5, 10)).of_measured == 0);  // only small ones were measured
}

TEST_CASE("damage to a trace does not silence a kind that was mostly right", "[precision]") {
  CHECK(!Calibrated(Row("a36.outliers", 0.5 * 0.5, 10)).IsSilent());
}

TEST_CASE("one or two false findings do not silence a kind", "[precision]") {
  FindingRow row = Calibrated(Row("a43.idle_energy", 0.3));
  CHECK(row.precision == Approx(0.2));
  CHECK(!row.IsSilent());
  row.of_measured = 3;
  CHECK(row.IsSilent());
}

TEST_CASE("a kind that was never measured keeps its confidence and is not silent", "[precision]") {
  const FindingRow row = Calibrated(Row("own.found", 0.2));
  CHECK(row.precision == 0.2);
  CHECK(row.of_measured == 0);
  CHECK(!row.IsSilent());
}

TEST_CASE("counts do not apply to findings that claim nothing, or by a threshold of the host's", "[precision]") {
  FindingRow undetermined = Row("a05.input_bound", 0.9), informs = undetermined, set = undetermined;
  undetermined.is_undetermined = true;
  informs.severity = Severity::kInfo;
  set.threshold.source = "config";
  for (const FindingRow& row : {undetermined, informs, set}) {
    CHECK(Calibrated(row).of_measured == 0);
    CHECK(Calibrated(row).precision == 0.9);
  }
}

TEST_CASE("a silent finding is not among the gravest of a report", "[precision]") {
  AnalysisReport analysis;
  analysis.analyzers.resize(1);
  analysis.analyzers[0].findings = {Calibrated(Row("a05.input_bound", 0.9)), Calibrated(Row("a36.outliers", 0.5, 10))};
  CHECK(pitot::analyze::FindingsText(analysis) == "in window   a36.outliers: found\n");
  pitot::analyze::HtmlReport report;
  report.why_not = "nothing fired";
  report.analysis = &analysis;
  const std::string text = pitot::analyze::OpeningText(pitot::model::Trace(), report, {}, 200);
  const size_t below = text.find("APPENDIX");
  REQUIRE(below != std::string::npos);
  CHECK(text.find("in window   a36.outliers: found\n") < below);
  CHECK(text.find("a05.input_bound: found; 1 of 18 such findings were true in runs with known faults") > below);
}

namespace {

// Makes a GPU's findings of these codes; they cost nothing, or all of the window.
class Some final : public Analyzer {
 public:
  Some(std::vector<const char*> codes, int64_t cost_ns) : codes_(std::move(codes)), cost_ns_(cost_ns) {}
  AnalyzerInfo Info() const noexcept override { return {"t1", "a test", nullptr, 0}; }
  Status Run(Analysis& analysis) override {
    for (const char* const code : codes_) {
      Finding finding;
      finding.code = code;
      finding.subject = "GPU 0";
      finding.summary = "found";
      finding.severity = Severity::kHigh;
      finding.confidence = 0.8;
      finding.cost_ns = cost_ns_;
      analysis.Add(finding);
    }
    return Status();
  }

 private:
  const std::vector<const char*> codes_;
  const int64_t cost_ns_;
};

// The first of these findings on a trace.
FindingRow FirstOf(pitot::model::Trace trace, std::vector<const char*> codes, int64_t cost_ns) {
  trace.window_end_ns = kWindowNs;
  std::vector<std::unique_ptr<Analyzer>> analyzers;
  analyzers.push_back(std::make_unique<Some>(std::move(codes), cost_ns));
  AnalysisReport report;
  REQUIRE(Analyze(trace, analyzers, {}, &report).ok());
  return report.analyzers[0].findings.at(0);
}
PrecisionCount CountOf(std::string_view code, Size size) {
  const PrecisionTable table = MeasuredPrecision();
  const auto row = std::find_if(table.rows, table.rows + table.size,
                                [&](const PrecisionCount& one) { return one.size == size && one.code == code; });
  REQUIRE(row != table.rows + table.size);
  return *row;
}

}  // namespace

TEST_CASE("a finding that became undetermined by missing work has no counts", "[precision]") {
  pitot::model::Trace missing;
  pitot::model::GpuLossRow loss;
  loss.reason = missing.strings.Add(pitot::base::kLaunchWithoutWork);
  loss.records = 3;
  missing.gpu_losses.push_back(loss);
  REQUIRE(FirstOf({}, {"a04.idle"}, kWindowNs).of_measured == CountOf("a04.idle", Size::kLarge).of);

  const FindingRow row = FirstOf(missing, {"a04.idle"}, kWindowNs);

  CHECK(row.is_undetermined);
  CHECK(row.right_in == 0);
  CHECK(row.of_measured == 0);
  CHECK(row.precision == row.confidence);
}

TEST_CASE("damage and contradictions change the confidence in a finding's precision, and not its counts",
          "[precision]") {
  pitot::model::Trace damaged;
  pitot::model::LossRow loss;
  loss.reason = pitot::model::LossReason::kDamaged;
  damaged.losses.push_back(loss);
  const FindingRow whole = FirstOf({}, {"a23.leak"}, 0), part = FirstOf(damaged, {"a23.leak"}, 0),
                   contradicted = FirstOf({}, {"a23.leak", "a23.fragmentation"}, 0);
  const PrecisionCount count = CountOf("a23.leak", Size::kSmall);

  CHECK(whole.confidence == 0.8);
  CHECK(part.confidence == 0.4);
  CHECK(contradicted.confidence == 0.4);
  for (const FindingRow& row : {whole, part, contradicted}) {
    CHECK(row.right_in == count.right);
    CHECK(row.of_measured == count.of);
    CHECK(row.precision == Approx((count.right + 2 * row.confidence) / (count.of + 2)));
  }
}

TEST_CASE("a finding calibrated again has no counts of the first time", "[precision]") {
  FindingRow row = Calibrated(Row("a05.input_bound", 0.9));
  row.is_undetermined = true;
  CHECK(Calibrated(row).of_measured == 0);
  CHECK(Calibrated(row).right_in == 0);
}

TEST_CASE("every analyzer's findings are calibrated by the measured table", "[precision]") {
  std::vector<std::unique_ptr<Analyzer>> analyzers;
  analyzers.push_back(std::make_unique<EachKind>());
  pitot::model::Trace trace;
  trace.window_end_ns = kWindowNs;
  AnalysisReport report;
  REQUIRE(Analyze(trace, analyzers, {}, &report).ok());
  const PrecisionTable table = MeasuredPrecision();
  REQUIRE(report.analyzers[0].findings.size() == table.size);
  for (const FindingRow& row : report.analyzers[0].findings) {
    const Size size = row.cost_ns == 0 ? Size::kSmall : Size::kLarge;
    const auto count = std::find_if(table.rows, table.rows + table.size, [&](const PrecisionCount& one) {
      return one.size == size && row.code == one.code;
    });
    REQUIRE(count != table.rows + table.size);
    CHECK(count->right <= count->of);
    CHECK(row.right_in == count->right);
    CHECK(row.of_measured == count->of);
    CHECK(row.precision == Approx((count->right + 2 * 0.8) / (count->of + 2)));
  }
}
