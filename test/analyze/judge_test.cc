// SPDX-License-Identifier: Apache-2.0
//
// The built-in judge: its answer to an incident, and the facts it has learned by then.
#include "pitot/analyze/judge.h"

#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyze/decode_server.h"
#include "analyze/judge/make_judge.h"
#include "analyze/keeping_hearing.h"
#include "analyze/prompt_server.h"
#include "analyze/small_server.h"
#include "analyze/unwrapped.h"
#include "base/appendix.h"
#include "fakes/string_sink.h"
#include "fakes/temp_directory.h"
#include "fakes/trace_text.h"
#include "pitot/analyze/learn.h"
#include "pitot/analyze/report_html.h"
#include "pitot/analyze/tokens.h"

namespace {

namespace analyze = pitot::analyze;
using fakes::KeepingHearing;
using pitot::Status;
using pitot::StatusCode;
using pitot::WhyJudgeOptions;
using pitot::model::Trace;
using pitot::test::Unwrapped;
using small_server::Server;

bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
bool Opens(const std::string& text, const std::string& with) { return text.compare(0, with.size(), with) == 0; }

uint64_t JustNow() noexcept { return small_server::kBegin + 3'600'000'000'000; }

// A host's own analyzer, with a given summary.
class OwnAnalyzer final : public pitot::Analyzer {
 public:
  OwnAnalyzer(const char* name, const char* summary) : name_(name), summary_(summary) {}
  pitot::AnalyzerInfo Info() const noexcept override { return {name_, "what the host asks", nullptr, 0}; }
  Status Run(pitot::Analysis& analysis) override {
    if (summary_ == nullptr) throw std::runtime_error("it lost its table");
    pitot::Finding finding;
    finding.code = "own.found";
    finding.severity = pitot::Severity::kHigh;
    finding.confidence = 1;
    finding.cost_ns = 1'000'000'000'000;
    finding.summary = summary_;
    analysis.Add(finding);
    return {};
  }

 private:
  const char* const name_;
  const char* const summary_;
};

std::unique_ptr<pitot::Judge> MakeOne(const WhyJudgeOptions& options = {}) {
  return pitot::judge::MakeJudge(options, {}, []() noexcept { return uint64_t{0}; });
}

// The verdict, and then the findings.
Status JudgeAll(pitot::Judge& judge, KeepingHearing& hearing) {
  if (Status s = judge.Decide(hearing); !s.ok()) return s;
  return judge.AddFindings(hearing);
}

// An incident, or the trace of a sample.
Trace Incident(int normal, int64_t after_us = 0) {
  Trace trace = Server(after_us).Make(normal);
  trace.attributes.push_back({trace.strings.Add("incident.number"), trace.strings.Add("7")});
  trace.attributes.push_back({trace.strings.Add("incident.cause"), trace.strings.Add("latency /classify")});
  return trace;
}
Trace Sample(int64_t after_us) { return Server(after_us).Make(140, false); }

WhyJudgeOptions NoWarmUp() {
  WhyJudgeOptions options;
  options.warm_up_ms = 0;
  return options;
}

}  // namespace

TEST_CASE("an incident's report opens with its number and the verdict, with files next to it", "[judge]") {
  const Trace trace = Incident(140);
  KeepingHearing hearing(trace);

  REQUIRE(JudgeAll(*MakeOne(NoWarmUp()), hearing).ok());

  CHECK(Opens(hearing.opening, "Request 0000000000008f0c (/classify) took 33.5 ms instead of 15.4 ms: it waited 13.5"));
  CHECK(Contains(hearing.opening, ".\nincident 0007  latency /classify\ntree"));
  CHECK(Contains(hearing.opening, "\nrequest 0000000000008f0c  /classify  33.5 ms"));
  CHECK(Contains(Unwrapped(hearing.opening),
                 "why 1) waited 13.5 ms for its executor in queue \"images\", behind a batch of unet (request "
                 "00000000000077aa of /segment) executor_busy +13.5 ms (75 %), p="));
  REQUIRE(hearing.files.size() == 2);
  CHECK(Contains(hearing.files["verdict.json"], "\"verdict\": \"causes\""));
  CHECK(
      Contains(hearing.files["report.html"], "<title>incident 7, latency /classify, request 0000000000008f0c</title>"));
  CHECK(Contains(
      hearing.files["report.html"],
      "<h1>Request 0000000000008f0c (/classify) took 33.5 ms instead of 15.4 ms: it waited 13.5 ms for its "
      "executor, behind a batch of unet (request 00000000000077aa of /segment). <small>executor_busy</small></h1>"));
}

TEST_CASE("the opening is short before its appendix, in which the verdict's numbers are", "[judge]") {
  const Trace trace = Incident(140);
  KeepingHearing hearing(trace);

  REQUIRE(JudgeAll(*MakeOne(NoWarmUp()), hearing).ok());

  const size_t end = pitot::base::FindAppendix(hearing.opening);
  const std::string front = hearing.opening.substr(0, end), appendix = hearing.opening.substr(end);
  INFO(hearing.opening);
  size_t last = 0;
  for (const char* const part : {"\ntree ", "\n\nwhat to do  ", "\nhow sure    confidence 0.",
                                 "\nrequest 0000000000008f0c ", "\nevidence    nothing lost"}) {
    INFO(part);
    CHECK(front.find(part, last) != std::string::npos);
    last = front.find(part, last);
  }
  for (const char* const part : {"compared with 140 requests", "\nwhy  1) ", "\nall of it   executor_busy "}) {
    INFO(part);
    CHECK(!Contains(front, part));
    CHECK(Contains(appendix, part));
  }
}

TEST_CASE("texts of any length leave the opening at 38 lines, and are whole in its appendix", "[judge]") {
  const Trace trace = Incident(140);
  analyze::Judgement judgement;
  REQUIRE(JudgeRequest(trace, analyze::ChooseRequest(trace, 0), nullptr, &judgement).ok());
  std::string words;
  for (int word = 0; word < 400; ++word) words += "word" + std::to_string(word) + " ";
  judgement.verdict.kind = analyze::VerdictKind::kUndetermined;
  judgement.verdict.why_not = words + "end";
  judgement.verdict.causes.resize(3);
  for (analyze::Cause& cause : judgement.verdict.causes) cause.advice.text = words.c_str();
  analyze::AnalysisReport analysis;
  analysis.analyzers.resize(1);
  analysis.analyzers[0].name = "fails";
  analysis.analyzers[0].status = Status(StatusCode::kInternal, words.c_str());
  analysis.analyzers[0].findings.resize(5);
  for (pitot::analyze::FindingRow& row : analysis.analyzers[0].findings) {
    row.code = "a05.input_bound";
    row.severity = pitot::Severity::kHigh;
    row.confidence = 0.5;
    row.summary = words + "found";
  }
  analyze::HtmlReport report;
  report.judgement = &judgement;
  report.others.assign(5, words + "fired");
  report.drifts.resize(4);
  for (analyze::Drift& drift : report.drifts) drift.route = words + "slower", drift.before_ns = drift.after_ns = 1;
  report.analysis = &analysis;

  const std::string text = OpeningText(trace, report, {"", "baseline    " + words + "\n"});

  const std::string appendix = text.substr(pitot::base::FindAppendix(text));
  const auto lines = std::count(text.begin(), text.end() - static_cast<std::ptrdiff_t>(appendix.size()), '\n');
  CHECK(lines <= 39);  // with a blank line after them
  for (const char* const whole : {"word399 end", "word399 found", "word399 fired", "word399 slower"}) {
    INFO(whole);
    CHECK(Contains(Unwrapped(appendix), whole));
  }
}

TEST_CASE("a cause in a scope comes with the scope's length, now and normally", "[judge]") {
  const Trace trace = Incident(140), few = Incident(20);
  KeepingHearing hearing(trace), of_few(few);

  REQUIRE(JudgeAll(*MakeOne(NoWarmUp()), hearing).ok());
  REQUIRE(JudgeAll(*MakeOne(NoWarmUp()), of_few).ok());

  // "forward" takes 10.0 to 10.48 ms; executor_busy is behind another's.
  const std::regex line(
      "\nscope       \"forward\" took 15\\.0 ms; normally p50 (\\S+) ms, p99 (\\S+) ms \\(of \\d+\\)\n");
  std::smatch said;
  REQUIRE(std::regex_search(hearing.opening, said, line));
  CHECK(std::stod(said[1]) == Approx(10.2).margin(0.4));
  CHECK(std::stod(said[2]) == Approx(10.5).margin(0.4));
  CHECK(hearing.opening.find("scope  ") == hearing.opening.rfind("scope  "));
  CHECK_FALSE(Contains(of_few.opening, "scope  "));
}

TEST_CASE("the judged one of two late tokens is not named again, but the other's request is", "[judge]") {
  decode_server::DecodeServer server;
  const int64_t at_ns = server.maker.trace.firings[0].at_ns;
  server.Fire("token_gap /generate", at_ns + 100, 11);
  server.maker.trace.requests[1].duration_ns += 1'000;  // slower than the request of the judged token
  const Trace trace = server.Finish();
  KeepingHearing hearing(trace);

  REQUIRE(JudgeAll(*MakeOne(), hearing).ok());

  INFO(hearing.opening);
  CHECK(Contains(hearing.opening, "request 000000000000000a"));
  CHECK(!Contains(hearing.opening, "also fired  000000000000000a"));
  CHECK(Contains(hearing.opening, "also fired  000000000000000b 2090.0 ms: "));
}

TEST_CASE("a request without a verdict takes no line from the next ones", "[judge]") {
  Trace trace = Incident(140);
  for (const uint64_t id : {small_server::kOther, uint64_t{0x1000}})
    trace.firings.push_back({trace.window_end_ns, id, trace.strings.Add("latency /classify"), 0});
  for (pitot::model::RequestRow& request : trace.requests) {
    if (request.id == small_server::kOther) request.begin_known = false;
  }
  KeepingHearing hearing(trace);

  REQUIRE(JudgeAll(*MakeOne(NoWarmUp()), hearing).ok());

  INFO(hearing.opening);
  CHECK(!Contains(hearing.opening, "also fired  00000000000077aa"));
  CHECK(Contains(hearing.opening, "also fired  0000000000001000 "));
}

TEST_CASE("the slowest others that fired get a line each, with the culprit", "[judge]") {
  Trace trace = Incident(140);
  const auto fire = [&](uint64_t id) {
    trace.firings.push_back({trace.window_end_ns, id, trace.strings.Add("latency /classify"), 0});
  };
  for (const uint64_t id : {0x1000, 0x1001, 0x1002, 0x1003}) fire(id);
  fire(small_server::kOther);
  fire(small_server::kOther);
  KeepingHearing hearing(trace);

  REQUIRE(JudgeAll(*MakeOne(NoWarmUp()), hearing).ok());

  const size_t first = hearing.opening.find("also fired  00000000000077aa 22.5 ms: ");
  REQUIRE(first != std::string::npos);
  const std::string front = hearing.opening.substr(0, pitot::base::FindAppendix(hearing.opening));
  size_t lines = 0;
  for (size_t at = 0; (at = front.find("also fired", at)) != std::string::npos; ++at) ++lines;
  CHECK(lines == 3);
  CHECK(hearing.opening.find("also fired") == first);
  CHECK(!Contains(hearing.opening, "also fired  0000000000008f0c"));
  CHECK(Contains(hearing.opening, "request 0000000000008f0c  /classify  33.5 ms"));
  CHECK(Contains(hearing.files["verdict.json"], "8f0c"));
  CHECK(Contains(hearing.files["report.html"], "Also fired: 00000000000077aa 22.5 ms: "));
}

TEST_CASE("a finding with a contradiction names it in the report", "[judge]") {
  pitot::analyze::AnalysisReport analysis;
  analysis.analyzers.resize(1);
  pitot::analyze::FindingRow row;
  row.code = "a10.launch_bound";
  row.summary = "idle";
  row.severity = pitot::Severity::kHigh;
  row.confidence = 0.5;
  row.contradictions.push_back({"a11.queue_full", "GPU 0 stream 7", "either the one or the other"});
  analysis.analyzers[0].findings.push_back(row);

  CHECK(pitot::analyze::FindingsText(analysis) ==
        "in window   a10.launch_bound: idle; but a11.queue_full: either the one or the other\n");
}

TEST_CASE("findings of low severity or about other requests are left out if the verdict names causes", "[judge]") {
  pitot::analyze::Judgement judgement;
  judgement.blame.begin_ns = 1'000;
  judgement.blame.end_ns = 2'000;
  pitot::analyze::AnalysisReport analysis;
  analysis.analyzers.resize(1);
  const auto add = [&](const char* code, pitot::Severity severity, int64_t begin_ns, int64_t end_ns) {
    pitot::analyze::FindingRow row;
    row.code = code;
    row.summary = "found";
    row.severity = severity;
    row.confidence = 0.5;
    row.evidence.resize(1);
    row.evidence[0].begin_ns = begin_ns;
    row.evidence[0].end_ns = end_ns;
    analysis.analyzers[0].findings.push_back(row);
  };
  add("a05.input_bound", pitot::Severity::kMedium, 1'900, 3'000);
  add("a28.saturated", pitot::Severity::kLow, 0, 3'000);
  add("a36.outliers", pitot::Severity::kMedium, 1'901, 3'000);
  add("a39.lost_events", pitot::Severity::kMedium, 2'000, 3'000);
  const auto text = [&](pitot::analyze::VerdictKind kind) {
    judgement.verdict.kind = kind;
    return pitot::analyze::FindingsText(analysis, 100, &judgement);
  };

  CHECK(text(pitot::analyze::VerdictKind::kCauses) ==
        "in window   a05.input_bound: found\nin window   a39.lost_events: found\n");
  const std::string all = text(pitot::analyze::VerdictKind::kUndetermined);
  CHECK(Contains(all, "a36.outliers"));
  CHECK(all == pitot::analyze::FindingsText(analysis));
}

TEST_CASE("a finding without confidence is not in the report", "[judge]") {
  pitot::analyze::AnalysisReport analysis;
  analysis.analyzers.resize(1);
  pitot::analyze::FindingRow row;
  row.code = "a35.latency";
  row.summary = "rose";
  row.severity = pitot::Severity::kHigh;
  for (const double confidence : {0.0, 0.004, 0.006}) {
    row.confidence = confidence;
    analysis.analyzers[0].findings = {row};
    CHECK(pitot::analyze::FindingsText(analysis) == (confidence < 0.005 ? "" : "in window   a35.latency: rose\n"));
  }
}

TEST_CASE("the sentence on a thread that held a lock meanwhile says so, and counts the waiters", "[judge]") {
  Server server;
  server.KeepWaiting("cache", 3);
  const Trace trace = server.Make(140);
  KeepingHearing hearing(trace);

  REQUIRE(JudgeAll(*MakeOne(NoWarmUp()), hearing).ok());

  const std::string sentence = hearing.opening.substr(0, hearing.opening.find("incident 0"));
  CHECK(Contains(Unwrapped(sentence), ", holding lock \"cache\" while 2 other threads queued for it"));
}

TEST_CASE("a host's own analyzers are asked about each incident, and a failing one is named", "[judge]") {
  std::vector<std::unique_ptr<pitot::Analyzer>> own;
  own.push_back(std::make_unique<OwnAnalyzer>("fails", nullptr));
  own.push_back(nullptr);
  own.push_back(std::make_unique<OwnAnalyzer>("own", "too many pictures of cats"));
  const auto judge = pitot::judge::MakeJudge(NoWarmUp(), std::move(own), JustNow);
  const Trace trace = Incident(140);
  for (int incident = 0; incident < 2; ++incident) {
    KeepingHearing hearing(trace);

    REQUIRE(JudgeAll(*judge, hearing).ok());

    CHECK(Contains(hearing.opening, "analyzer    fails: it threw an exception: it lost its table\n"));
    CHECK(Contains(hearing.opening, "in window   own.found: too many pictures of cats\n"));
    CHECK(Contains(hearing.files["report.html"], "too many pictures of cats"));
  }
}

TEST_CASE("incidents, which are chosen for being slow, make no finding usual", "[judge]") {
  std::vector<std::unique_ptr<pitot::Analyzer>> own;
  own.push_back(std::make_unique<OwnAnalyzer>("own", "too many pictures of cats"));
  const auto judge = pitot::judge::MakeJudge(NoWarmUp(), std::move(own), JustNow);
  for (int incident = 0; incident < 12; ++incident) {
    const Trace trace = Incident(140, incident * 20'000 * small_server::kUs);
    KeepingHearing hearing(trace);
    REQUIRE(JudgeAll(*judge, hearing).ok());
    const std::string front = hearing.opening.substr(0, pitot::base::FindAppendix(hearing.opening));
    CHECK(Contains(front, "in window   own.found: too many pictures of cats\n"));
  }
}

TEST_CASE("samples tell which findings are usual", "[judge]") {
  const auto judge = MakeOne(NoWarmUp());
  for (int sample = 0; sample < 24; ++sample) {
    const Trace trace = Sample(sample * 20'000 * small_server::kUs);
    KeepingHearing hearing(trace);
    hearing.are_findings_due = sample % 2 == 0;
    REQUIRE(judge->Learn(hearing).ok());
  }
  const Trace incident = Incident(140, 25 * 20'000 * small_server::kUs);
  KeepingHearing hearing(incident);
  REQUIRE(JudgeAll(*judge, hearing).ok());

  CHECK(Contains(hearing.files["report.html"], " of the last 12 windows"));
}

TEST_CASE("a route that is slower as a whole appears in the report and in verdict.json", "[judge]") {
  const auto judge = MakeOne(NoWarmUp());
  const auto at = [](int minutes, int i) {
    Server server((minutes * 60'000 + i * 20'000) * small_server::kUs);
    if (minutes >= 30) server.SlowDown(5'000);
    return server;
  };
  for (int minutes = 0; minutes < 45; minutes += 5) {
    for (int i = 0; i < 4; ++i) {
      const Trace trace = at(minutes, i).Make(140, false);
      KeepingHearing sample(trace);
      REQUIRE(judge->Learn(sample).ok());
    }
  }
  const Trace incident = at(45, 0).Make(140), alone = Incident(140);
  KeepingHearing hearing(incident), without(alone);

  REQUIRE(JudgeAll(*judge, hearing).ok());
  REQUIRE(JudgeAll(*MakeOne(NoWarmUp()), without).ok());

  CHECK(Contains(Unwrapped(hearing.opening), "drift /classify as a whole is slower: typically 20.4 ms, 15.4 before"));
  const auto drifts = nlohmann::json::parse(hearing.files["verdict.json"])["drifts"];
  REQUIRE(drifts.size() == 1);
  CHECK(drifts[0]["route"] == "/classify");
  CHECK(drifts[0]["sizes_from"] == 0);
  CHECK(drifts[0]["typical_after_ns"].get<double>() - drifts[0]["typical_before_ns"].get<double>() ==
        Approx(5e6).margin(2e5));
  CHECK(drifts[0]["lasts_ns"].get<double>() == Approx(15 * 60e9).margin(10e9));
  CHECK(drifts[0]["after_ns"]["host_oncpu_framework"].get<double>() -
            drifts[0]["before_ns"]["host_oncpu_framework"].get<double>() ==
        Approx(5e6).margin(2e5));
  CHECK(nlohmann::json::parse(without.files["verdict.json"])["drifts"].empty());
}

TEST_CASE("incidents' windows are not a drift of a route if there are samples", "[judge]") {
  const auto judge = MakeOne(NoWarmUp());
  std::string opening, drifts;
  for (int minutes = 0; minutes < 45; minutes += 5) {
    for (int i = 0; i < 4; ++i) {
      const int64_t begin_ns = (minutes * 60'000 + i * 20'000) * small_server::kUs;
      if (minutes < 30 || i == 0) {
        const Trace usual = Server(begin_ns).Make(140, false);
        KeepingHearing sample(usual);
        REQUIRE(judge->Learn(sample).ok());
        continue;
      }
      Server slow(begin_ns);
      slow.SlowDown(5'000);
      const Trace incident = slow.Make(140);
      KeepingHearing hearing(incident);
      REQUIRE(JudgeAll(*judge, hearing).ok());
      opening = hearing.opening;
      drifts = nlohmann::json::parse(hearing.files["verdict.json"])["drifts"].dump();
    }
  }

  CHECK(Contains(opening, "1) "));
  CHECK(drifts == "[]");
}

TEST_CASE("the kept baseline is used when there is no time to learn another", "[judge]") {
  const Trace trace = Incident(140);
  analyze::Baseline kept;
  {
    analyze::BlameIndex index;
    REQUIRE(analyze::BlameIndex::Make(trace, {}, &index).ok());
    for (uint32_t row = 0; row < 100; ++row) REQUIRE(LearnRequest(index, row, &kept, nullptr).ok());
  }
  const auto judge = [&](const analyze::Baseline* baseline, int64_t most_asks) {
    analyze::Judgement judgement;
    analyze::BlameOptions options;
    options.is_over = [](void* left) { return --*static_cast<int64_t*>(left) < 0; };
    options.is_over_context = &most_asks;
    if (Status s = analyze::BlameIndex::Make(trace, options, &judgement.index); !s.ok()) return s;
    return JudgeRequest(trace, analyze::ChooseRequest(trace, 0), baseline, &judgement);
  };
  const auto least = [&](const analyze::Baseline* baseline) {
    int64_t asks = 0;
    while (judge(baseline, asks).code() == StatusCode::kResourceExhausted) ++asks;
    REQUIRE(judge(baseline, asks).ok());
    return asks;
  };
  CHECK(least(nullptr) - least(&kept) == 140);  // the learned ones
}

TEST_CASE("the page can be left out", "[judge]") {
  const Trace trace = Incident(140);
  KeepingHearing hearing(trace);
  WhyJudgeOptions options;
  options.html = false;

  REQUIRE(JudgeAll(*MakeOne(options), hearing).ok());

  CHECK(hearing.files.count("report.html") == 0);
  CHECK(hearing.files.count("verdict.json") == 1);
}

TEST_CASE("a baseline is learned from samples, and the next incident is compared with it", "[judge]") {
  const auto judge = MakeOne(NoWarmUp());
  for (int64_t i = 0; i < 20; ++i) {
    const Trace trace = Sample(i / 2 * 10'000'000);  // each twice, and nothing is learned twice
    KeepingHearing sample(trace);
    REQUIRE(judge->Learn(sample).ok());
    CHECK(sample.opening.empty());
    CHECK(sample.files.empty());
  }
  const Trace incident = Incident(3, 100'000'000);
  KeepingHearing hearing(incident), unlearned(incident);

  REQUIRE(JudgeAll(*judge, hearing).ok());
  REQUIRE(JudgeAll(*MakeOne(NoWarmUp()), unlearned).ok());

  CHECK(!Contains(unlearned.opening, "compared with"));
  INFO(hearing.opening);
  CHECK(Contains(hearing.opening, "compared with 160 requests of the same route and size"));
  CHECK(Contains(hearing.opening, "1) waited 13.5 ms for its executor"));
}

TEST_CASE("what the judge learned from samples is there for the next incident's dump, and survives in its file",
          "[judge]") {
  const fakes::TempDirectory directory;
  const std::string file = directory / "normal";
  WhyJudgeOptions options = NoWarmUp();
  options.baseline_file = file.c_str();
  const auto judge = MakeOne(options);
  const auto known = [](pitot::Judge& of) {
    Trace trace;
    REQUIRE(of.AddNorms(&trace).ok());
    std::vector<std::string> names;
    for (const pitot::model::NormRow& row : trace.norms) {
      CHECK(row.count >= 8);
      names.push_back(std::string(trace.strings[row.name]) + " " + std::to_string(static_cast<int>(row.kind)));
    }
    return names;
  };
  CHECK(known(*judge).empty());
  for (int64_t i = 0; i < 10; ++i) {
    const Trace trace = Sample(i * 10'000'000);
    KeepingHearing sample(trace);
    REQUIRE(judge->Learn(sample).ok());
  }
  const std::vector<std::string> names = known(*judge);
  const auto has = [&](const char* name) { return std::count(names.begin(), names.end(), name) != 0; };
  CHECK(has("resnet50 2"));
  CHECK(has("resnet50 5"));
  CHECK(has("/classify 6"));
  CHECK(has("forward 8"));
  const Trace incident = Incident(3, 100'000'000);
  KeepingHearing hearing(incident);
  REQUIRE(JudgeAll(*judge, hearing).ok());
  CHECK(known(*MakeOne(options)) == known(*judge));
}

TEST_CASE("a first token is judged by those of earlier samples, in the process as by a tool from its dump", "[judge]") {
  using prompt_server::kWindowNs;
  const auto judge = MakeOne(NoWarmUp());
  for (int64_t i = 0; i < 20; ++i) {
    const Trace trace = prompt_server::PromptServer(20, i * kWindowNs).Finish();
    KeepingHearing sample(trace);
    REQUIRE(judge->Learn(sample).ok());
  }
  prompt_server::PromptServer server(5, 20 * kWindowNs);
  server.ServeLate();
  Trace incident = server.Finish();
  REQUIRE(judge->AddNorms(&incident).ok());
  KeepingHearing hearing(incident);
  REQUIRE(JudgeAll(*judge, hearing).ok());

  analyze::Judgement judgement;
  REQUIRE(analyze::BlameIndex::Make(incident, {}, &judgement.index).ok());
  analyze::Asked asked;
  REQUIRE(ChooseAsked(judgement.index, &asked).ok());
  REQUIRE(JudgeAsked(incident, asked, nullptr, &judgement).ok());
  const std::string by_tool = FiredJson(judgement.index, asked, &judgement, "");
  INFO(by_tool);
  CHECK(Contains(hearing.files.at("verdict.json"), by_tool.substr(1)));
  CHECK(judgement.verdict.baseline_size == 64);
  CHECK(judgement.verdict.causes.at(0).blame == analyze::Blame::kHostPagefaultIo);
  CHECK(Contains(hearing.opening, "64 first tokens before this trace"));
}

TEST_CASE("what is usual is told again only if something was learned or forgotten since", "[judge]") {
  static uint64_t now_ns = 0;
  now_ns = 0;
  const auto judge = pitot::judge::MakeJudge(NoWarmUp(), {}, []() noexcept { return now_ns; });
  const auto told = [&](StatusCode code) {
    Trace trace;
    CHECK(judge->AddNorms(&trace).code() == code);
    return trace.norms.size();
  };
  CHECK(told(StatusCode::kOk) == 0);
  CHECK(told(StatusCode::kUnavailable) == 0);
  for (int64_t i = 0; i < 10; ++i) {
    const Trace trace = Sample(i * 10'000'000);
    KeepingHearing sample(trace), again(trace);
    REQUIRE(judge->Learn(sample).ok());
    CHECK(told(StatusCode::kOk) >= (i < 4 ? 0 : 1));
    REQUIRE(judge->Learn(again).ok());
    CHECK(told(StatusCode::kUnavailable) == 0);
  }
  now_ns = small_server::kBegin + 3'600'000'000'000;
  CHECK(told(StatusCode::kOk) == 0);
  CHECK(told(StatusCode::kUnavailable) == 0);
}

TEST_CASE("a baseline is learned from incidents, and kept for the next", "[judge]") {
  const Trace first = Incident(140), second = Incident(3);
  const auto judge = MakeOne(NoWarmUp()), warming = pitot::judge::MakeJudge({}, {}, JustNow);
  for (auto* one : {judge.get(), warming.get()}) {
    KeepingHearing hearing(first);
    REQUIRE(JudgeAll(*one, hearing).ok());
    CHECK(Contains(hearing.opening, "compared with 140 requests"));  // those of the trace are more
  }
  KeepingHearing hearing(second), warm(second);

  REQUIRE(JudgeAll(*judge, hearing).ok());
  REQUIRE(JudgeAll(*warming, warm).ok());

  CHECK(Contains(hearing.opening, "compared with 105 requests of the same route and size"));
  CHECK(Contains(hearing.opening, "1) waited 13.5 ms for its executor"));
  CHECK(!Contains(warm.opening, "compared with"));
}

TEST_CASE("a baseline is kept in a file, and another judge begins with it", "[judge]") {
  const fakes::TempDirectory directory;
  const std::string file = directory / "normal";
  WhyJudgeOptions options = NoWarmUp();
  options.baseline_file = file.c_str();
  const Trace first = Incident(140), second = Incident(3);
  KeepingHearing before(first), after(second), wrong(first);
  REQUIRE(JudgeAll(*MakeOne(options), before).ok());
  struct stat info {};
  REQUIRE(stat(file.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0600);
  CHECK(fakes::NamesIn(directory.path()).size() == 1);

  const auto judge =
      pitot::judge::MakeJudge(options, {}, []() noexcept { return static_cast<uint64_t>(small_server::kBegin); });
  REQUIRE(JudgeAll(*judge, after).ok());

  CHECK(Contains(after.opening, "compared with 105 requests of the same route and size"));
  CHECK(Contains(after.opening, "scope       \"forward\" took 15.0 ms; normally p50 "));
  CHECK(!Contains(after.opening, "baseline    "));
  std::ofstream(file) << "garbage";
  REQUIRE(JudgeAll(*MakeOne(options), wrong).ok());
  CHECK(Contains(wrong.opening, "baseline    "));
  CHECK(Contains(wrong.opening, "normal is not a baseline file; left unchanged"));
  std::string left;
  std::getline(std::ifstream(file), left);
  CHECK(left == "garbage");  // whoever owns the file
}

TEST_CASE("a cut baseline is replaced, and a FIFO is not waited for", "[judge]") {
  const fakes::TempDirectory directory;
  const std::string file = directory / "normal", fifo = directory / "fifo";
  const Trace trace = Incident(140);
  WhyJudgeOptions options = NoWarmUp();
  options.baseline_file = file.c_str();
  std::ofstream(file) << "PITB cut";
  KeepingHearing cut(trace), whole(trace), blocked(trace);
  REQUIRE(JudgeAll(*MakeOne(options), cut).ok());
  REQUIRE(JudgeAll(*MakeOne(options), whole).ok());
  CHECK(Contains(cut.opening, "baseline    not a baseline, or not a whole one\n"));
  CHECK(!Contains(whole.opening, "baseline    "));

  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  options.baseline_file = fifo.c_str();
  REQUIRE(JudgeAll(*MakeOne(options), blocked).ok());
  CHECK(Contains(blocked.opening, "fifo is not a regular file"));
  struct stat info {};
  REQUIRE(stat(fifo.c_str(), &info) == 0);
  CHECK(S_ISFIFO(info.st_mode));
}

TEST_CASE("a file that cannot be written is reported", "[judge]") {
  WhyJudgeOptions options = NoWarmUp();
  options.baseline_file = "/no/such/folder/normal";
  const Trace trace = Incident(140);
  KeepingHearing hearing(trace);

  REQUIRE(JudgeAll(*MakeOne(options), hearing).ok());

  CHECK(Contains(hearing.opening, "baseline    cannot create /no/such/folder/normal.new: No such file or directory\n"));
}

TEST_CASE("a judge out of time stops, and keeps its answers so far", "[judge]") {
  const Trace trace = Incident(140);
  KeepingHearing all(trace);
  REQUIRE(JudgeAll(*MakeOne(NoWarmUp()), all).ok());
  REQUIRE(all.asks > 10);
  bool had_verdict = false;
  for (int64_t asks = 0; asks < all.asks; ++asks) {
    KeepingHearing hearing(trace, asks);
    const pitot::Status status = JudgeAll(*MakeOne(NoWarmUp()), hearing);
    // kNotFound: the verdict itself had no time left for all of its files, and has no findings.
    REQUIRE((status.ok() || status.code() == StatusCode::kResourceExhausted || status.code() == StatusCode::kNotFound));
    const bool has_verdict = Contains(hearing.opening, "1) waited 13.5 ms for its executor");
    CHECK(has_verdict >= had_verdict);
    CHECK((has_verdict || !status.ok() || Contains(hearing.opening, "no time left")));
    CHECK(has_verdict >= (hearing.files.count("report.html") != 0));
    had_verdict = has_verdict;
  }
  CHECK(had_verdict);
}

TEST_CASE("the slowest of several requests that fired is asked about, unless one is named", "[judge]") {
  Trace trace;
  for (const uint64_t id : {1, 2, 3}) {
    pitot::model::RequestRow request;
    request.id = id;
    request.begin_known = request.end_known = true;
    request.duration_ns = id == 1 ? 900 : static_cast<int64_t>(100 * id);
    trace.requests.push_back(request);
  }
  for (const uint64_t id : {2, 3}) trace.firings.push_back({0, id, 0, 0});

  CHECK(pitot::analyze::ChooseRequest(trace, 0) == 2);
  CHECK(pitot::analyze::ChooseRequest(trace, 2) == 1);
  CHECK(pitot::analyze::ChooseRequest(trace, 9) == pitot::model::kNone);
  trace.firings.clear();
  CHECK(pitot::analyze::ChooseRequest(trace, 0) == 0);
}

TEST_CASE("no other request is judged in place of one that fired and was lost", "[judge]") {
  Trace trace;
  pitot::model::RequestRow request;
  request.id = 1;
  request.begin_known = request.end_known = true;
  request.duration_ns = 900;
  trace.requests.push_back(request);
  trace.firings.push_back({0, 0xbeef, 0, trace.strings.Add("60.1 ms > 50 ms")});
  pitot::analyze::BlameIndex index;
  REQUIRE(pitot::analyze::BlameIndex::Make(trace, {}, &index).ok());
  pitot::analyze::Asked asked;

  const pitot::Status status = pitot::analyze::ChooseAsked(index, &asked);

  CHECK(status.code() == pitot::StatusCode::kNotFound);
  CHECK(std::string(status.message()) ==
        "request 000000000000beef, which fired (60.1 ms > 50 ms), was lost: it is not in the trace");
}

TEST_CASE("an analyzer that runs when the time is up is named", "[judge]") {
  const Trace trace = Incident(140);
  KeepingHearing all(trace);
  REQUIRE(JudgeAll(*MakeOne(NoWarmUp()), all).ok());
  bool is_named = false;
  for (int64_t asks = all.asks; asks-- > 0 && !is_named;) {
    KeepingHearing hearing(trace, asks);
    JudgeAll(*MakeOne(NoWarmUp()), hearing);
    is_named = Contains(hearing.opening, ": not run: the time for all analyzers is up");
  }
  CHECK(is_named);
}

TEST_CASE("a file that the disk refuses fails the judge with a message", "[judge]") {
  const Trace trace = Incident(140);
  KeepingHearing hearing(trace);
  hearing.file_status = Status(StatusCode::kResourceExhausted, "the disk is full");

  CHECK(MakeOne()->Decide(hearing).code() == StatusCode::kResourceExhausted);
  CHECK(Contains(hearing.opening, "executor_busy"));
}

TEST_CASE("an incident without a request has no verdict, and says why", "[judge]") {
  pitot::test::TraceMaker maker;
  const Trace trace = maker.Finish();
  KeepingHearing hearing(trace);

  REQUIRE(JudgeAll(*MakeOne(), hearing).ok());

  CHECK(Opens(hearing.opening, "no verdict: no request began and ended in its window\n"));
  CHECK(Contains(hearing.files["report.html"], "<h1>No verdict</h1>"));
  CHECK(hearing.files.count("verdict.json") == 0);
}

TEST_CASE("a judge asks for samples unless told not to", "[judge]") {
  WhyJudgeOptions options;
  options.budget_ms = 500;
  CHECK(MakeOne(options)->Needs().budget_ms == 500);
  CHECK(MakeOne(options)->Needs().sample_every_ms == 10'000);
  options.sample_every_ms = 0;
  CHECK(MakeOne(options)->Needs().sample_every_ms == 0);
}

TEST_CASE("a verdict comes with its files before any analysis, and findings are added to both reports", "[judge]") {
  const Trace trace = Incident(140);
  KeepingHearing hearing(trace);
  std::vector<std::unique_ptr<pitot::Analyzer>> own;
  own.push_back(std::make_unique<OwnAnalyzer>("own", "too many pictures of cats"));
  const auto judge = pitot::judge::MakeJudge(NoWarmUp(), std::move(own), JustNow);
  CHECK(judge->Needs().has_findings);

  REQUIRE(judge->Decide(hearing).ok());
  CHECK(Contains(hearing.opening, "in window   not analyzed yet: `pitot analyze DIR` does it now\n"));
  CHECK(Contains(hearing.files["verdict.json"], "\"verdict\": \"causes\""));
  CHECK(!Contains(hearing.files["report.html"], "too many pictures of cats"));

  REQUIRE(judge->AddFindings(hearing).ok());
  CHECK(!Contains(hearing.opening, "not analyzed yet"));
  CHECK(Contains(hearing.opening, "in window   own.found: too many pictures of cats\n"));
  CHECK(Contains(hearing.files["report.html"], "too many pictures of cats"));
  CHECK(judge->AddFindings(hearing).code() == StatusCode::kNotFound);
}

TEST_CASE("a page that can wait comes with the findings", "[judge]") {
  const Trace trace = Incident(140);
  const auto judge = MakeOne(NoWarmUp());
  KeepingHearing hearing(trace);
  hearing.can_files_wait = true;
  REQUIRE(judge->Decide(hearing).ok());
  CHECK(Contains(hearing.files["verdict.json"], "\"verdict\": \"causes\""));
  CHECK(hearing.files.count("report.html") == 0);

  REQUIRE(judge->AddFindings(hearing).ok());
  CHECK(hearing.files.count("report.html") == 1);
}

TEST_CASE("findings that had to give way can be asked for again, also of a trace that has moved", "[judge]") {
  Trace trace = Incident(140);
  const auto judge = MakeOne(NoWarmUp());
  KeepingHearing decided(trace), cut(trace, 5);
  REQUIRE(judge->Decide(decided).ok());
  CHECK_FALSE(judge->AddFindings(cut).ok());
  CHECK(cut.opening.empty());

  const Trace moved = std::move(trace);
  KeepingHearing again(moved);
  REQUIRE(judge->AddFindings(again).ok());
  CHECK(Contains(again.opening, "1) waited 13.5 ms for its executor"));
  CHECK(again.files.count("report.html") == 1);
}

TEST_CASE("a request that was walked for an earlier incident is not walked again", "[judge]") {
  const Trace trace = Incident(100);
  const uint32_t asked = analyze::ChooseRequest(trace, 0);
  analyze::BlameIndex index;
  REQUIRE(analyze::BlameIndex::Make(trace, {}, &index).ok());
  std::unordered_map<uint64_t, analyze::BaselineRow> known;
  const auto learn = [&](analyze::Baseline* baseline) {
    analyze::Learned learned;
    learned.known = &known;
    REQUIRE(LearnBaseline(index, asked, {}, baseline, &learned).ok());
  };
  analyze::Baseline first, second;
  learn(&first);
  CHECK(known.size() == first.size());
  for (auto& [id, row] : known) row.work.launches = 77;
  learn(&second);

  std::vector<analyze::BaselineRow> rows;
  second.Find("/classify", trace.requests[asked].size_bucket, trace.window_end_ns, 1, &rows);
  REQUIRE(rows.size() == first.size());
  for (const analyze::BaselineRow& row : rows) CHECK(row.work.launches == 77);
}

TEST_CASE("the same fault has the same signature, whichever request it strikes, and another fault another", "[judge]") {
  const auto judged = [](const Trace& trace) {
    auto hearing = std::make_unique<KeepingHearing>(trace);
    REQUIRE(MakeOne(NoWarmUp())->Decide(*hearing).ok());
    return hearing;
  };
  const Trace first = Incident(140), later = Incident(141, 3'000), late_token = decode_server::DecodeServer().Finish();

  CHECK(judged(first)->signature == "/classify: batch executor_busy, of unet");
  CHECK(judged(first)->excess_ns == Approx(18e6).margin(1e6));
  CHECK(judged(later)->signature == judged(first)->signature);
  CHECK(Opens(judged(late_token)->signature, "/generate (token): "));
}
