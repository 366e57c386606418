// SPDX-License-Identifier: Apache-2.0
//
// How analyzers are run: their input, the treatment of their answers, and of analyzers that fail.
#include "pitot/analyze/analyze.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "analyze/facts/recorded.h"
#include "analyze/overheard.h"
#include "analyze/soup.h"
#include "analyze/verdict/contradictions.h"
#include "base/clock.h"
#include "base/host_counters.h"
#include "pitot/analyze/why.h"
#include "pitot/model/trace.h"
#include "pitot/request.h"
#include "serialize/sample_trace.h"

namespace {

using namespace pitot;
using analyze::AnalysisReport;
using analyze::AnalyzeOptions;

constexpr Threshold kThresholds[] = {{"limit", 3, "1", "a paper"}};

// An analyzer that does as it is told.
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

void AddNamed(Analysis& analysis, const char* code, const char* subject, int64_t cost_ns = 0,
              Severity severity = Severity::kLow, const char* metric = "share") {
  Finding finding;
  finding.code = code;
  finding.subject = subject;
  finding.metric = metric;
  finding.severity = severity;
  finding.confidence = 0.8;
  finding.cost_ns = cost_ns;
  analysis.Add(finding);
}

// A report of one analyzer; each finding has confidence 0.8.
AnalysisReport ReportOf(const std::vector<std::pair<const char*, const char*>>& findings) {
  AnalysisReport report;
  report.analyzers.resize(1);
  for (const auto& [code, subject] : findings) {
    analyze::FindingRow row;
    row.code = code;
    row.subject = subject;
    row.confidence = 0.8;
    report.analyzers[0].findings.push_back(row);
  }
  return report;
}

// Moves all times by `ns`.
void Shift(int64_t ns, model::Trace* trace) {
  const auto shift = [&](int64_t& at_ns) { at_ns += ns; };
  for (int64_t* const at_ns : {&trace->window_begin_ns, &trace->window_end_ns}) shift(*at_ns);
  for (std::vector<int64_t>* const column :
       {&trace->events.begin_ns, &trace->calls.begin_ns, &trace->gpu.begin_ns, &trace->samples.at_ns}) {
    for (int64_t& at_ns : *column) shift(at_ns);
  }
  for (model::ThreadRow& row : trace->threads) shift(row.history_begin_ns);
  for (model::RequestRow& row : trace->requests) {
    shift(row.begin_ns);
    for (model::Stage& stage : row.stages) shift(stage.begin_ns);
  }
  for (model::BatchRow& row : trace->batches) shift(row.begin_ns);
  for (model::MemberRow& row : trace->members) {
    shift(row.join_ns);
    if (row.leave_ns != 0) shift(row.leave_ns);
  }
  for (model::HandoffRow& row : trace->handoffs) {
    shift(row.enqueue_ns);
    if (row.take_ns != 0) shift(row.take_ns);
  }
  for (model::OverheadRow& row : trace->overheads) shift(row.begin_ns);
  for (model::DepthRow& row : trace->depths) shift(row.begin_ns), shift(row.end_ns);
  for (model::LossRow& row : trace->losses) shift(row.begin_ns), shift(row.end_ns);
  for (model::GpuLossRow& row : trace->gpu_losses) shift(row.begin_ns), shift(row.end_ns);
}

// All answers, without their cost and time.
std::string TextOf(const AnalysisReport& report) {
  std::string text;
  for (const analyze::AnalyzerReport& analyzer : report.analyzers) {
    text += analyzer.name + " " + analyzer.status.message() + "\n";
    for (const analyze::MeasureRow& row : analyzer.measures)
      text += row.name + " of " + row.subject + ": " + std::to_string(row.value) + "\n";
    for (const analyze::FindingRow& row : analyzer.findings) {
      text += row.code + " of " + row.subject + ": " + row.summary + " " + std::to_string(row.value) + " " +
              std::to_string(row.cost_ns) + "\n";
      for (const analyze::EvidenceRow& evidence : row.evidence)
        text += std::to_string(evidence.first_row) + ", " + std::to_string(evidence.end_ns - evidence.begin_ns) + "\n";
    }
  }
  return text;
}

// Something to report for each analyzer of the catalogue. There are `n` requests one after the other, each in a batch,
// with an operator, calls, a copy and kernels; and counters of all collectors.
model::Trace BusyTrace(uint32_t n) {
  constexpr int64_t kUs = 1000, kEveryNs = 100 * kUs;
  test::TraceMaker maker;
  model::Trace& trace = maker.trace;
  trace.window_end_ns = n * kEveryNs;
  const uint32_t worker = maker.Thread("worker");
  trace.devices.resize(1);
  trace.devices[0].multiprocessors = 100;
  trace.streams.resize(1);
  trace.streams[0].device = 0;
  trace.shapes.push_back({{3, 1, 1}, {33, 1, 1}, 0, 0, 0, 0});
  const uint32_t scope = maker.Site(SiteKind::kScope, "decode");
  const uint32_t op = maker.Site(SiteKind::kOperator, "aten::mm", {{"flops", ArgType::kUint}});
  const model::ArgValue flops = 1'000'000;
  for (uint32_t i = 0; i < n; ++i) {
    const int64_t at_ns = i * kEveryNs, ns = (60 + i % 7) * kUs;
    test::Context in;
    in.request = maker.Request(i + 1, "/a", at_ns, ns);
    in.batch = maker.Batch(i + 1, "gpu", worker, at_ns + kUs, ns - 2 * kUs);
    if (i % 2 == 0) trace.batches.back().close = static_cast<uint8_t>(BatchClose::kStep);
    maker.Member(in.batch, in.request, at_ns + kUs, at_ns + ns - kUs);
    trace.requests.back().output_tokens = 2;
    trace.requests.back().begin_thread = trace.requests.back().end_thread = worker;
    maker.Event(worker, scope, at_ns, ns, in);
    maker.Event(worker, op, at_ns + 2 * kUs, ns - 10 * kUs, in, {flops});
    const auto launch = [&](const char* call, model::GpuKind kind, const char* name, int64_t after_us) {
      maker.Call(worker, call, at_ns + after_us * kUs, kUs, in);
      maker.Gpu(0, kind, name, at_ns + (after_us + 2) * kUs, 3 * kUs, trace.calls.size() - 1,
                kind == model::GpuKind::kKernel ? 0 : model::kNone, 64);
    };
    launch("cudaMemcpyAsync", model::GpuKind::kMemcpy, "pageable to device", 4);
    launch("cudaLaunchKernel", model::GpuKind::kKernel, "gemm", 12);
    launch("cudaLaunchKernel", model::GpuKind::kKernel, "softmax", 20);
    maker.Call(worker, "cudaStreamSynchronize", at_ns + 30 * kUs, kUs, in);
    trace.tokens.push_back({in.request, worker, at_ns + 40 * kUs, 1});
  }
  const auto counter = [&](const std::string& name, const char* unit, double each) {
    trace.counters.push_back({model::kNone, maker.String(name), maker.String(unit)});
    for (uint32_t i = 0; i < n; ++i) {
      trace.samples.counter.push_back(static_cast<uint32_t>(trace.counters.size() - 1));
      trace.samples.at_ns.push_back(i * kEveryNs);
      trace.samples.value.push_back(each * i);
    }
  };
  for (const base::CounterName name : {base::kOnCpu, base::kVoluntary, base::kInvoluntary, base::kMajorFaults})
    counter(base::ThreadCounter(trace.threads[0].tid, name), "", 10'000);
  counter("GPU 0 (NVIDIA H100): SM clock", "MHz", 1);
  counter("GPU 0 (NVIDIA H100): power", "W", 1);
  counter("GPU 0: allocated", "bytes", 1);
  return maker.Finish();
}

// Reports that the time is up after `most` questions.
struct Clock {
  int64_t most = INT64_MAX, asked = 0;
  static bool IsOver(void* clock) { return ++static_cast<Clock*>(clock)->asked > static_cast<Clock*>(clock)->most; }
};
AnalyzeOptions By(Clock* clock) {
  AnalyzeOptions options;
  options.budget_ns = INT64_MAX;
  options.is_over = Clock::IsOver;
  options.is_over_context = clock;
  return options;
}
analyze::AnalyzerReport RunBuiltIn(const model::Trace& trace, const char* name, Clock* clock) {
  AnalyzeOptions options = By(clock);
  options.only = {name};
  AnalysisReport report;
  REQUIRE(Analyze(trace, analyze::MakeCatalogue(), options, &report).ok());
  return report.analyzers[0];
}

constexpr const char kCutOff[] = "cut off: the time for all analyzers is up";

Status Walk(Analysis& analysis) {
  return analysis.walks() != nullptr ? AddOne(analysis) : Status(StatusCode::kInternal, "no walks");
}

}  // namespace

TEST_CASE("every analyzer of the catalogue stops silently when its time is up, and is named", "[analyze]") {
  const model::Trace trace = BusyTrace(200);
  REQUIRE(FindInconsistency(trace) == "");
  for (const std::unique_ptr<Analyzer>& analyzer : analyze::MakeCatalogue()) {
    const char* const name = analyzer->Info().name;
    INFO(name);
    Clock begun{1}, over{0};
    const analyze::AnalyzerReport cut = RunBuiltIn(trace, name, &begun), late = RunBuiltIn(trace, name, &over);
    CHECK(std::string(cut.status.message()) == kCutOff);
    CHECK((cut.measures.empty() && cut.findings.empty()));
    CHECK(std::string(late.status.message()) == "not run: the time for all analyzers is up");
  }
}

TEST_CASE("every analyzer of the catalogue asks for the time more often in a larger trace", "[analyze]") {
  const model::Trace small = BusyTrace(200), large = BusyTrace(10'000);
  // These spend their time in a pass or two over the whole trace, and ask only around it.
  const std::set<std::string> whole = {"a01", "a02", "a39"};
  for (const std::unique_ptr<Analyzer>& analyzer : analyze::MakeCatalogue()) {
    const char* const name = analyzer->Info().name;
    INFO(name);
    Clock of_small, of_large;
    RunBuiltIn(small, name, &of_small);
    RunBuiltIn(large, name, &of_large);
    CHECK((of_large.asked > of_small.asked || whole.count(name) != 0));
  }
}

TEST_CASE("shared indexes are made once, for the first analyzer that asks", "[analyze]") {
  static std::vector<const analyze::BlameIndex*> seen;
  seen.clear();
  const Told::Does see = [](Analysis& analysis) {
    seen.push_back(analysis.blame_index());
    return AddOne(analysis);
  };
  Run({{"t1", see}, {"t2", see}}, {}, BusyTrace(20));

  REQUIRE(seen.size() == 2);
  CHECK(seen[0] != nullptr);
  CHECK(seen[1] == seen[0]);
}

TEST_CASE("an analyzer without time for a shared index is named, and the next one makes it", "[analyze]") {
  static Clock clock;
  clock = {};
  const Told::Does in_haste = [](Analysis& analysis) {
    clock.most = clock.asked + 3;
    const Status status = Walk(analysis);
    clock.most = INT64_MAX;
    return status;
  };
  const AnalysisReport report = Run({{"t1", in_haste}, {"t2", Walk}}, By(&clock), BusyTrace(200));

  CHECK(std::string(report.analyzers[0].status.message()) == kCutOff);
  CHECK(report.analyzers[0].measures.empty());
  CHECK(report.analyzers[1].status.ok());
}

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
  CHECK(std::string(report.analyzers[0].status.message()) == "it threw an exception: no such table");
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

TEST_CASE("an analyzer does not pay for work done while it asks for the time", "[analyze]") {
  AnalyzeOptions options;
  options.budget_ns = 50'000'000;
  options.is_over = [](void*) {
    const int64_t begin_ns = base::ClockNs(CLOCK_THREAD_CPUTIME_ID);
    while (base::ClockNs(CLOCK_THREAD_CPUTIME_ID) - begin_ns <= 50'000'000) {}
    return false;
  };
  const AnalysisReport report = Run({{"t1",
                                      [](Analysis& analysis) {
                                        for (int i = 0; i < 3; ++i) {
                                          if (analysis.IsOver()) return Status();
                                        }
                                        return AddOne(analysis);
                                      }}},
                                    options);

  CHECK(std::string(report.analyzers[0].status.message()) == "");
  CHECK(report.analyzers[0].measures.size() == 1);
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

TEST_CASE("a host's threshold is used, and named as the host's", "[analyze]") {
  AnalyzeOptions options;
  options.thresholds = {{"t1.limit", 7}};
  const AnalysisReport report = Run({{"t1", AddFinding}, {"t2", AddFinding}}, options);

  CHECK(report.analyzers[0].findings[0].threshold.value == 7);
  CHECK(report.analyzers[0].findings[0].threshold.source == "config");
  CHECK(report.analyzers[1].findings[0].threshold.value == 3);
}

TEST_CASE("confidence falls with the share of lost records", "[analyze]") {
  model::Trace trace;
  trace.window_end_ns = 1000;
  trace.gpu_losses.push_back({model::kNone, 0, 900, 2000, 0});
  CHECK(Run({{"t1", AddFinding}}, {}, trace).analyzers[0].findings[0].confidence == Approx(0.72));
  trace.losses.push_back({model::kNone, model::LossReason::kDamaged, 0, 1, 0, 0});
  CHECK(Run({{"t1", AddFinding}}, {}, trace).analyzers[0].findings[0].confidence == Approx(0.4));
}

TEST_CASE("findings that exclude each other are kept, half as sure, and each names the other", "[analyze]") {
  struct Pair {
    const char *one, *of_one, *other, *of_other;
  };
  const Pair pairs[] = {{"a10.launch_bound", "GPU 0", "a11.queue_full", "GPU 0 stream 7"},
                        {"a23.leak", "GPU 1: LibTorch allocated", "a23.fragmentation", "GPU 1"}};
  size_t rows = 0;
  for (const verdict::Exclusion* row = verdict::kExclusions; row->one != nullptr; ++row)
    rows += row->of == verdict::Meeting::kSameGpu ? 1 : 0;
  REQUIRE(rows == std::size(pairs));
  for (const Pair& pair : pairs) {
    INFO(pair.one);
    AnalysisReport report = ReportOf({{pair.one, pair.of_one}, {pair.other, pair.of_other}, {"a04.idle", "GPU 0"}});

    verdict::MarkContradictions(&report);

    const std::vector<analyze::FindingRow>& findings = report.analyzers[0].findings;
    CHECK(findings[0].confidence == Approx(0.4));
    CHECK(findings[1].confidence == Approx(0.4));
    CHECK(findings[2].confidence == Approx(0.8));
    REQUIRE(findings[0].contradictions.size() == 1);
    REQUIRE(findings[1].contradictions.size() == 1);
    CHECK(findings[0].contradictions[0].code == pair.other);
    CHECK(findings[0].contradictions[0].subject == pair.of_other);
    CHECK(findings[1].contradictions[0].code == pair.one);
    CHECK(findings[1].contradictions[0].why.substr(0, 7) == "either ");
    CHECK(findings[2].contradictions.empty());
  }
}

TEST_CASE("findings of different GPUs, and undetermined ones, contradict nothing", "[analyze]") {
  AnalysisReport report = ReportOf({{"a10.launch_bound", "GPU 1"},
                                    {"a11.queue_full", "GPU 0 stream 7"},
                                    {"a11.queue_full", "GPU 10 stream 7"},
                                    {"a10.launch_bound", "GPU unknown"},
                                    {"a11.queue_full", "GPU unknown stream 7"},
                                    {"a23.leak", "PyTorch CPU allocated"},
                                    {"a23.fragmentation", "GPU 0"},
                                    {"a10.launch_bound", "GPU 0"}});
  report.analyzers[0].findings.back().is_undetermined = true;

  verdict::MarkContradictions(&report);

  for (const analyze::FindingRow& finding : report.analyzers[0].findings) {
    INFO(finding.code << " of " << finding.subject);
    CHECK(finding.contradictions.empty());
    CHECK(finding.confidence == Approx(0.8));
  }
}

TEST_CASE("a finding with two contradictions names both, and is half as sure once", "[analyze]") {
  const AnalysisReport report = Run({{"t1",
                                      [](Analysis& analysis) {
                                        AddNamed(analysis, "a11.queue_full", "GPU 0 stream 7");
                                        AddNamed(analysis, "a11.queue_full", "GPU 0 stream 8");
                                        return Status();
                                      }},
                                     {"t2", [](Analysis& analysis) {
                                        AddNamed(analysis, "a10.launch_bound", "GPU 0");
                                        return Status();
                                      }}});

  CHECK(report.analyzers[1].findings[0].contradictions.size() == 2);
  CHECK(report.analyzers[1].findings[0].confidence == Approx(0.4));
  CHECK(report.analyzers[0].findings[1].confidence == Approx(0.4));
}

TEST_CASE("repeated findings become one, the gravest, with their number", "[analyze]") {
  const AnalysisReport report = Run({{"t1", [](Analysis& analysis) {
                                        AddNamed(analysis, "t1.found", "GPU 0", 5, Severity::kLow);
                                        AddNamed(analysis, "t1.found", "GPU 0", 3, Severity::kHigh);
                                        AddNamed(analysis, "t1.found", "GPU 0", 7, Severity::kHigh);
                                        AddNamed(analysis, "t1.found", "GPU 1", 6, Severity::kHigh);
                                        AddNamed(analysis, "t1.found", "GPU 0", 1, Severity::kHigh, "another metric");
                                        AddNamed(analysis, "t1.other", "GPU 0", 2, Severity::kHigh);
                                        return Status();
                                      }}});

  const std::vector<analyze::FindingRow>& findings = report.analyzers[0].findings;
  REQUIRE(findings.size() == 4);
  CHECK(findings[0].cost_ns == 7);
  CHECK(findings[0].repeats == 2);
  for (size_t i = 1; i < findings.size(); ++i) CHECK(findings[i].repeats == 0);
}

TEST_CASE("findings of all analyzers are ranked by severity, then by cost", "[analyze]") {
  const AnalysisReport report = Run({{"t1",
                                      [](Analysis& analysis) {
                                        AddNamed(analysis, "t1.low", "all", 9, Severity::kLow);
                                        AddNamed(analysis, "t1.dear", "all", 8, Severity::kHigh);
                                        return Status();
                                      }},
                                     {"t2", [](Analysis& analysis) {
                                        AddNamed(analysis, "t2.dearer", "all", 10, Severity::kHigh);
                                        return Status();
                                      }}});

  std::vector<std::string> codes;
  for (const analyze::FindingRow* finding : report.Ranked()) codes.push_back(finding->code);
  CHECK(codes == std::vector<std::string>{"t2.dearer", "t1.dear", "t1.low"});
}

TEST_CASE("unknown analyzers and thresholds are refused by name", "[analyze]") {
  std::vector<std::unique_ptr<Analyzer>> analyzers;
  analyzers.push_back(std::make_unique<Told>("t1", AddOne));
  AnalysisReport report;
  AnalyzeOptions options;
  options.only = {"t9"};
  CHECK(std::string(Analyze({}, analyzers, options, &report).message()) == "only: there is no analyzer t9");
  options.only = {};
  options.thresholds = {{"t1.other", 1}};
  CHECK(std::string(Analyze({}, analyzers, options, &report).message()) ==
        "thresholds: there is no threshold t1.other");
  for (const auto& [value, text] : {std::pair(std::nan(""), "nan"), {1e16, "1e+16"}, {-INFINITY, "-inf"}}) {
    AnalyzeOptions beyond;
    beyond.thresholds = {{"t1.limit", value}};
    CHECK(std::string(Analyze({}, analyzers, beyond, &report).message()) ==
          std::string("thresholds: t1.limit = ") + text + " is not a number from -1e15 to 1e15");
  }
}

TEST_CASE("only the chosen analyzers run", "[analyze]") {
  AnalyzeOptions options;
  options.only = {"t2"};
  const AnalysisReport report = Run({{"t1", AddOne}, {"t2", AddOne}}, options);

  REQUIRE(report.analyzers.size() == 1);
  CHECK(report.analyzers[0].name == "t2");
}

TEST_CASE("the whole catalogue answers an empty trace", "[analyze]") {
  AnalysisReport report;
  REQUIRE(Analyze({}, analyze::MakeCatalogue(), {}, &report).ok());
  for (const analyze::AnalyzerReport& analyzer : report.analyzers) {
    CHECK(analyzer.status.ok());
    CHECK(analyzer.findings.empty());
  }
}

TEST_CASE("the whole catalogue answers any trace, with times within it and finite numbers", "[analyze]") {
  // Not recorded without work of GPUs.
  const std::set<std::string> of_gpus = {"a01.busy",   "a01.communication", "a01.compute",           "a01.memcpy",
                                         "a01.memset", "a10.launches",      "a10.launches_a_request"};
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    const model::Trace trace = test::RandomTrace(seed, 20 + 5 * seed);
    AnalysisReport report;
    REQUIRE(Analyze(trace, test::OverheardCatalogue(), {}, &report).ok());
    const uint32_t rows[] = {0, trace.events.size(), trace.calls.size(), trace.gpu.size()};
    std::set<std::string> not_recorded;
    for (const analyze::AnalyzerReport& analyzer : report.analyzers) {
      INFO(analyzer.name);
      CHECK(std::string(analyzer.status.message()) == "");
      for (const analyze::MeasureRow& row : analyzer.measures) {
        CHECK_FALSE(std::isinf(row.value));
        if (std::isnan(row.value)) not_recorded.insert(analyzer.name + "." + row.name);
      }
      for (const analyze::FindingRow& row : analyzer.findings) {
        INFO(row.code << ": " << row.summary);
        CHECK(row.code.compare(0, 4, analyzer.name + ".") == 0);
        CHECK((row.confidence >= 0 && row.confidence <= 1));
        CHECK(row.cost_ns >= 0);
        CHECK(std::isfinite(row.value));
        CHECK((row.summary != "" && row.recommendation != "" && row.metric != "" && row.threshold.source != ""));
        for (const analyze::EvidenceRow& evidence : row.evidence) {
          CHECK(evidence.begin_ns <= evidence.end_ns);
          CHECK(evidence.first_row + evidence.rows <= rows[static_cast<size_t>(evidence.table)]);
        }
      }
    }
    const std::vector<bool> requests = model::AreRequestsRecorded(trace);
    std::set<std::string> expected = of_gpus;
    if (facts::HasGpuWork(trace)) expected = {"a10.launches_a_request"};
    if (requests.empty() || std::find(requests.begin(), requests.end(), true) != requests.end())
      expected.erase("a10.launches_a_request");
    CHECK(not_recorded == expected);
  }
}

TEST_CASE("no analyzer depends on the time of day: a shifted trace has the same answers", "[analyze]") {
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    model::Trace trace = test::RandomTrace(seed, 20 + 5 * seed);
    AnalysisReport before, after;
    REQUIRE(Analyze(trace, analyze::MakeCatalogue(), {}, &before).ok());
    Shift(86'400'000'000'000, &trace);
    REQUIRE(FindInconsistency(trace) == "");
    REQUIRE(Analyze(trace, analyze::MakeCatalogue(), {}, &after).ok());
    CHECK(TextOf(after) == TextOf(before));
  }
}

TEST_CASE("a measure is found by its analyzer, its name and, if one is given, its subject", "[analyze]") {
  const auto add = [](Analysis& analysis) {
    analysis.Add(Measure{"count", "a", 1, "1"});
    analysis.Add(Measure{"count", "b", 2, "1"});
    return Status();
  };
  const AnalysisReport report = Run({{"t1", AddOne}, {"t2", add}});

  CHECK(report.Find("t1", "count")->value == 1);
  CHECK(report.Find("t2", "count")->subject == "a");
  CHECK(report.Find("t2", "count", "b")->value == 2);
  CHECK(report.Find("t2", "count", "c") == nullptr);
  CHECK(report.Find("t2", "other") == nullptr);
  CHECK(report.Find("t3", "count") == nullptr);
}

TEST_CASE("an analyzer's answers are limited in number", "[analyze]") {
  const auto add = [](Analysis& analysis) {
    for (int i = 0; i < 100'001; ++i) analysis.Add(Measure{"count", "all", 1, "1"});
    for (int i = 0; i < 1'001; ++i) AddNamed(analysis, ("t1." + std::to_string(i)).c_str(), "all");
    return Status();
  };
  const AnalysisReport report = Run({{"t1", add}});

  CHECK(report.analyzers[0].measures.size() == 100'000);
  CHECK(report.analyzers[0].findings.size() == 1'000);
}

TEST_CASE("a confidence beyond 0 to 1 is the nearest of these", "[analyze]") {
  const auto add = [](Analysis& analysis) {
    for (const double confidence : {-0.5, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
      Finding finding;
      finding.code = confidence < 0 ? "t1.least" : confidence > 0 ? "t1.most" : "t1.none";
      finding.confidence = confidence;
      analysis.Add(finding);
    }
    return Status();
  };
  const AnalysisReport report = Run({{"t1", add}});

  CHECK(report.analyzers[0].findings[0].confidence == 0);
  CHECK(report.analyzers[0].findings[1].confidence == 1);
  CHECK(report.analyzers[0].findings[2].confidence == 0);
}

TEST_CASE("no analyzer of the catalogue claims a confidence beyond 0 to 1, whatever the rows say", "[analyze]") {
  const auto catalogue = test::OverheardCatalogue();
  std::set<std::string> codes;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    const model::Trace soup = test::Soup(seed);
    for (const model::Trace& trace : {soup, test::Stretched(soup)}) {
      AnalysisReport report;
      REQUIRE(Analyze(trace, catalogue, {}, &report).ok());
      for (const analyze::AnalyzerReport& analyzer : report.analyzers) {
        for (const analyze::FindingRow& row : analyzer.findings) codes.insert(row.code);
      }
    }
  }
  CHECK(codes.size() > 15);
}

TEST_CASE("an analyzer whose time was up once has none later", "[analyze]") {
  static Clock clock;
  static std::vector<bool> told;
  clock = {}, told.clear();
  const Told::Does ask = [](Analysis& analysis) {
    told.push_back(analysis.IsOver());
    clock.most = clock.asked;
    told.push_back(analysis.IsOver());
    clock.most = INT64_MAX;
    told.push_back(analysis.IsOver());
    return Status();
  };
  const AnalysisReport report = Run({{"t1", ask}, {"t2", AddOne}}, By(&clock));

  CHECK(told == std::vector<bool>{false, true, true});
  CHECK(std::string(report.analyzers[0].status.message()) == kCutOff);
  CHECK(report.analyzers[1].status.ok());
}
