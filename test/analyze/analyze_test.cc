// SPDX-License-Identifier: Apache-2.0
//
// How analyzers are run: what they are given, what becomes of what they answer, and of those that fail.
#include "pitot/analyze/analyze.h"

#include <catch2/catch.hpp>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "pitot/model/trace.h"

namespace {

using namespace pitot;
using analyze::AnalysisReport;
using analyze::AnalyzeOptions;

constexpr Threshold kThresholds[] = {{"limit", 3, "1", "a paper"}};

// Does what it is told.
class Told final : public Analyzer {
 public:
  using Does = Status (*)(Analysis&);
  Told(const char* name, Does does) : name_(name), does_(does) {}
  AnalyzerInfo Info() const noexcept override { return {name_, "a test", kThresholds, 1}; }
  Status Run(Analysis& analysis) override { return does_(analysis); }

 private:
  const char* name_;
  Does does_;
};

Status AddOne(Analysis& analysis) {
  analysis.Add(Measure{"count", "all", 1, "1"});
  return Status();
}
Status AddFinding(Analysis& analysis) {
  const Threshold limit = analysis.threshold("limit");
  const std::string summary = "gone when this returns";
  Evidence evidence[20];
  evidence[0].note = "here";
  Finding finding;
  finding.code = "t1.found";
  finding.confidence = 0.8;
  finding.value = 5;
  finding.threshold = limit;
  finding.summary = summary.c_str();
  finding.evidence = evidence;
  finding.evidence_count = 20;
  analysis.Add(finding);
  return Status();
}

AnalysisReport Run(std::vector<std::pair<const char*, Told::Does>> does, const AnalyzeOptions& options = {},
                   const model::Trace& trace = {}) {
  std::vector<std::unique_ptr<Analyzer>> analyzers;
  for (const auto& [name, what] : does) analyzers.push_back(std::make_unique<Told>(name, what));
  AnalysisReport report;
  REQUIRE(Analyze(trace, analyzers, options, &report).ok());
  return report;
}

}  // namespace

TEST_CASE("an analyzer that throws or fails is named, and the others answer", "[analyze]") {
  const AnalysisReport report = Run({{"t1",
                                      [](Analysis& analysis) -> Status {
                                        AddOne(analysis);
                                        throw std::runtime_error("no such table");
                                      }},
                                     {"t2", [](Analysis&) { return Status(StatusCode::kUnavailable, "no GPU"); }},
                                     {"t3", AddOne}});

  REQUIRE(report.analyzers.size() == 3);
  CHECK(report.analyzers[0].status.code() == StatusCode::kInternal);
  CHECK(std::string(report.analyzers[0].status.message()) == "it threw: no such table");
  CHECK(report.analyzers[0].measures.empty());
  CHECK(report.analyzers[1].status.code() == StatusCode::kUnavailable);
  CHECK(report.analyzers[2].measures.size() == 1);
}

TEST_CASE("an analyzer that overruns its CPU budget is cut off and named", "[analyze]") {
  AnalyzeOptions options;
  options.budget_ns = 1'000'000;
  const AnalysisReport report = Run({{"t1",
                                      [](Analysis& analysis) {
                                        AddOne(analysis);
                                        while (!analysis.IsOver()) {}
                                        return Status();
                                      }},
                                     {"t2", AddOne}},
                                    options);

  CHECK(report.analyzers[0].status.code() == StatusCode::kResourceExhausted);
  CHECK(std::string(report.analyzers[0].status.message()).substr(0, 8) == "cut off:");
  CHECK(report.analyzers[0].measures.empty());
  CHECK(report.analyzers[1].status.ok());
}

TEST_CASE("findings keep their texts, their threshold and its source", "[analyze]") {
  const AnalysisReport report = Run({{"t1", AddFinding}});

  REQUIRE(report.analyzers[0].findings.size() == 1);
  const analyze::FindingRow& finding = report.analyzers[0].findings[0];
  CHECK(finding.code == "t1.found");
  CHECK(finding.summary == "gone when this returns");
  CHECK(finding.threshold.value == 3);
  CHECK(finding.threshold.source == "a paper");
  CHECK(finding.evidence.size() == 16);
  CHECK(finding.evidence[0].note == "here");
  CHECK(finding.confidence == Approx(0.8));
}

TEST_CASE("a host's threshold is used, and said to be its own", "[analyze]") {
  AnalyzeOptions options;
  options.thresholds = {{"t1.limit", 7}};
  const AnalysisReport report = Run({{"t1", AddFinding}, {"t2", AddFinding}}, options);

  CHECK(report.analyzers[0].findings[0].threshold.value == 7);
  CHECK(report.analyzers[0].findings[0].threshold.source == "config");
  CHECK(report.analyzers[1].findings[0].threshold.value == 3);
}

TEST_CASE("confidence falls with what was lost", "[analyze]") {
  model::Trace trace;
  trace.window_end_ns = 1000;
  trace.gpu_losses.push_back({model::kNone, 0, 900, 2000, 0});
  CHECK(Run({{"t1", AddFinding}}, {}, trace).analyzers[0].findings[0].confidence == Approx(0.72));
  trace.losses.push_back({model::kNone, model::LossReason::kDamaged, 0, 1, 0, 0});
  CHECK(Run({{"t1", AddFinding}}, {}, trace).analyzers[0].findings[0].confidence == Approx(0.4));
}

TEST_CASE("analyzers and thresholds that there are not are refused by name", "[analyze]") {
  std::vector<std::unique_ptr<Analyzer>> analyzers;
  analyzers.push_back(std::make_unique<Told>("t1", AddOne));
  AnalysisReport report;
  AnalyzeOptions options;
  options.only = {"t9"};
  CHECK(std::string(Analyze({}, analyzers, options, &report).message()) == "only: there is no analyzer t9");
  options.only = {};
  options.thresholds = {{"t1.other", 1}};
  CHECK(std::string(Analyze({}, analyzers, options, &report).message()) == "thresholds: there is no t1.other");
}

TEST_CASE("only those that were asked for run", "[analyze]") {
  AnalyzeOptions options;
  options.only = {"t2"};
  const AnalysisReport report = Run({{"t1", AddOne}, {"t2", AddOne}}, options);

  REQUIRE(report.analyzers.size() == 1);
  CHECK(report.analyzers[0].name == "t2");
}

TEST_CASE("the whole catalogue answers a trace of nothing", "[analyze]") {
  AnalysisReport report;
  REQUIRE(Analyze({}, analyze::MakeCatalogue(), {}, &report).ok());
  for (const analyze::AnalyzerReport& analyzer : report.analyzers) {
    CHECK(analyzer.status.ok());
    CHECK(analyzer.findings.empty());
  }
  for (const Compat compat : {Compat::kHta, Compat::kTraceLens, Compat::kTbPlugin}) {
    AnalyzeOptions options;
    options.compat = compat;
    CHECK(Analyze({}, analyze::MakeCatalogue(), options, &report).ok());
  }
}
