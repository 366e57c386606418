// SPDX-License-Identifier: Apache-2.0
//
// report.html: how browsers treat names that try to be more than names. (For the look of the page see the golden file
// of test/cli/why_test.cc.)
#include "pitot/analyze/report_html.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "analyze/decode_server.h"
#include "pitot/analyze/tokens.h"
#include "serialize/sample_trace.h"

namespace {

using pitot::analyze::HtmlReport;
using pitot::model::Trace;
using pitot::test::TraceMaker;

constexpr int64_t kMs = 1'000'000, kBegin = 1'000 * kMs;
constexpr char kHostile[] =
    "</title></style><script>alert('x')</script><img src=x onerror=\"alert(1)\">&lt;\xe2\x80\xae";

// Everything with a name has this one. The request is decoded, waits behind a batch and ends on a GPU.
Trace MakeHostile(const std::string& name) {
  TraceMaker maker;
  Trace& trace = maker.trace;
  trace.window_begin_ns = kBegin;
  trace.window_end_ns = kBegin + 100 * kMs;
  trace.process_name = maker.String(name);
  for (const char* key :
       {"incident.number", "incident.cause", "host", "cost.recording", "cost.own_threads", "pitot.version"})
    trace.attributes.push_back({maker.String(key), maker.String(name)});
  const uint32_t http = maker.Thread(name + "1"), executor = maker.Thread(name + "2");
  const uint32_t scope = maker.Site(pitot::SiteKind::kScope, name);
  const uint32_t other = maker.Request(1, name, kBegin, 30 * kMs), slow = maker.Request(2, name, kBegin, 90 * kMs);
  for (const uint32_t row : {other, slow}) {
    trace.requests[row].begin_thread = http;
    trace.requests[row].end_thread = executor;
  }
  const uint32_t before = maker.Batch(11, name, executor, kBegin + 5 * kMs, 25 * kMs);
  const uint32_t batch = maker.Batch(12, name, executor, kBegin + 40 * kMs, 50 * kMs);
  maker.Member(before, other, kBegin + 5 * kMs);
  maker.Member(batch, slow, kBegin + 40 * kMs);
  maker.Event(http, scope, kBegin, 10 * kMs, {slow, pitot::model::kNone});
  maker.Event(executor, scope, kBegin + 5 * kMs, 25 * kMs, {pitot::model::kNone, before});
  maker.Event(executor, scope, kBegin + 40 * kMs, 50 * kMs, {pitot::model::kNone, batch});
  maker.Call(executor, name, kBegin + 50 * kMs, 30 * kMs, {pitot::model::kNone, batch});
  trace.handoffs.push_back({slow, maker.String(name), http, executor, kBegin + 10 * kMs, kBegin + 40 * kMs, batch});
  trace.firings.push_back({kBegin + 90 * kMs, 2, maker.String(name), maker.String(name)});
  return maker.Finish();
}

std::string PageOf(const Trace& trace, const std::string& name) {
  pitot::analyze::Judgement judgement;
  REQUIRE(JudgeRequest(trace, pitot::analyze::ChooseRequest(trace, 0), nullptr, &judgement).ok());
  pitot::analyze::AnalysisReport analysis;
  analysis.analyzers.resize(2);
  analysis.analyzers[0].name = analysis.analyzers[0].title = name;
  analysis.analyzers[0].status = pitot::Status(pitot::StatusCode::kInternal, name.c_str());
  pitot::analyze::FindingRow finding;
  finding.code = finding.subject = finding.metric = finding.summary = finding.recommendation = name;
  finding.severity = pitot::Severity::kHigh;
  finding.confidence = 0.5;
  finding.threshold = {name, name, name, 1};
  finding.evidence.push_back({pitot::EvidenceTable::kWindow, 0, 0, kBegin, kBegin + kMs, name});
  analysis.analyzers[1].findings.push_back(finding);
  HtmlReport report;
  report.judgement = &judgement;
  report.analysis = &analysis;
  pitot::analyze::Drift drift;
  drift.route = name;
  drift.before_ns = 10 * kMs;
  drift.after_ns = 20 * kMs;
  report.drifts.push_back(drift);
  return ReportHtml(trace, report);
}

std::string SentenceOf(const pitot::analyze::Judgement& judgement) {
  return VerdictSentence(judgement.index, judgement.blame, judgement.verdict);
}

std::string HeadlineOf(const std::string& page) {
  const size_t begin = page.find("<h1>") + 4;
  const std::string escaped = page.substr(begin, page.find(" <small>", begin) - begin);
  return std::regex_replace(escaped, std::regex("&quot;"), "\"");
}

// Names of elements, and every attribute's name, as a browser would see them: quotes are obeyed.
std::set<std::string> MarkupOf(const std::string& page) {
  std::set<std::string> markup;
  for (size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at)) {
    size_t end = at + 1;
    std::string word;
    bool is_quoted = false;
    for (; end < page.size() && (is_quoted || page[end] != '>'); ++end) {
      if (page[end] == '"') is_quoted = !is_quoted;
      if (is_quoted || page[end] == '"') continue;
      if (page[end] == ' ' || page[end] == '=') {
        if (!word.empty()) markup.insert(word);
        word.clear();
      } else {
        word += page[end];
      }
    }
    markup.insert(word);
    at = end;
  }
  return markup;
}

}  // namespace

TEST_CASE("the page's headline is the verdict's sentence, whatever the kind of the verdict", "[html]") {
  const Trace trace = MakeHostile("name");
  pitot::analyze::Judgement judgement;
  REQUIRE(JudgeRequest(trace, pitot::analyze::ChooseRequest(trace, 0), nullptr, &judgement).ok());
  HtmlReport report;
  report.judgement = &judgement;
  using pitot::analyze::VerdictKind;
  for (const VerdictKind kind : {VerdictKind::kCauses, VerdictKind::kUniform, VerdictKind::kMoreWork,
                                 VerdictKind::kDiffuse, VerdictKind::kNotUnusual, VerdictKind::kUndetermined}) {
    judgement.verdict.kind = kind;
    CHECK(SentenceOf(judgement).find("Request 0000000000000002 (name) took ") == 0);
    CHECK(HeadlineOf(ReportHtml(trace, report)) == SentenceOf(judgement));
  }
}

TEST_CASE("names are shown and never become markup", "[html]") {
  const std::string page = PageOf(MakeHostile(kHostile), kHostile), plain = PageOf(MakeHostile("name"), "name");

  CHECK(MarkupOf(page) == MarkupOf(plain));
  CHECK(std::count(page.begin(), page.end(), '<') == std::count(plain.begin(), plain.end(), '<'));
  CHECK(page.find("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&lt;img src=x onerror=&quot;alert(1)&quot;&gt;") !=
        std::string::npos);
  CHECK(page.find("&amp;lt;") != std::string::npos);      // escaped text is shown as it is
  CHECK(page.find("\xe2\x80\xae") == std::string::npos);  // characters that turn the text around are gone
}

TEST_CASE("the page writes the id of the request its thread was at work for with all digits", "[html]") {
  Trace trace = MakeHostile("name");
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    if (trace.events.batch[event] != 0) continue;
    trace.events.batch[event] = pitot::model::kNone;  // done for the request alone
    trace.events.request[event] = 0;
  }

  CHECK(PageOf(trace, "name").find("for request 0000000000000001 (name)") != std::string::npos);
}

TEST_CASE("printed times of a verdict add up", "[html]") {
  const Trace trace = MakeHostile("name");
  pitot::analyze::Judgement judgement;
  REQUIRE(JudgeRequest(trace, pitot::analyze::ChooseRequest(trace, 0), nullptr, &judgement).ok());
  pitot::analyze::Verdict& verdict = judgement.verdict;
  verdict.kind = pitot::analyze::VerdictKind::kCauses;
  verdict.level = pitot::analyze::Baseline::Level::kCell;
  verdict.largest.clear();
  verdict.latency_ns = 108'854'119;  // 108.9
  verdict.typical_ns = 4'815'000;    // 4.8; the excess is 104.04, but 108.9 - 4.8 is 104.1
  verdict.causes.resize(1);
  verdict.causes[0].excess_ns = 100'011'000;
  verdict.rest_ns = 4'028'119;
  verdict.unnamed = 1;
  verdict.unnamed_ns = 3'660'000;  // 3.7, of 4.1 with 0.4
  HtmlReport report;
  report.judgement = &judgement;

  const std::string text = VerdictText(judgement.index, judgement.blame, verdict), page = ReportHtml(trace, report);

  const std::string rest = "rest +4.1 ms: +3.7 ms of 1 lesser cause, +0.4 ms within the normal range";
  CHECK(text.find("+100.0 ms") != std::string::npos);
  CHECK(text.find(rest) != std::string::npos);
  CHECK(text.find("sum of excess 104.1 = 108.9 - 4.8") != std::string::npos);
  CHECK(page.find(rest + "; together +104.1 ms = 108.9 - 4.8") != std::string::npos);
}

TEST_CASE("text and page say when kernels were profiled in the request's time", "[html]") {
  Trace trace = MakeHostile("name");
  const uint32_t row = pitot::analyze::ChooseRequest(trace, 0);
  const int64_t begin_ns = trace.requests[row].begin_ns, end_ns = trace.RequestEnd(trace.requests[row]);
  const auto said = [&] {
    pitot::analyze::Judgement judgement;
    REQUIRE(JudgeRequest(trace, row, nullptr, &judgement).ok());
    HtmlReport report;
    report.judgement = &judgement;
    const std::string text = VerdictText(judgement.index, judgement.blame, judgement.verdict, 10'000);
    const size_t at = text.find("kernels were being profiled");
    if (at == std::string::npos) {
      CHECK(ReportHtml(trace, report).find("<p>kernels were being profiled") == std::string::npos);
      return std::string();
    }
    const std::string line = text.substr(at, text.find('\n', at) - at);
    CHECK(ReportHtml(trace, report).find(line + ".") != std::string::npos);
    CHECK(VerdictJson(judgement.index, judgement.blame, judgement.verdict).find("\"profiled\": {\n    \"runs\": ") !=
          std::string::npos);
    return line;
  };
  const pitot::model::StringId name = trace.strings.Add("profiling kernels");
  trace.overheads.push_back({begin_ns - 20 * kMs, 20 * kMs, name});
  trace.overheads.push_back({begin_ns, end_ns - begin_ns, trace.strings.Add("Flush")});
  trace.overheads.push_back({end_ns, 20 * kMs, name});
  CHECK(said().empty());

  trace.overheads = {{begin_ns - 20 * kMs, 22 * kMs, name}};
  CHECK(said() == "kernels were being profiled from 0.0 to 2.0 ms of its time: launches took longer meanwhile");
  trace.overheads.push_back({begin_ns + 3 * kMs, kMs, name});
  CHECK(said() ==
        "kernels were being profiled from 0.0 to 4.0 ms of its time, in 2 runs: launches took longer meanwhile");
}

TEST_CASE("the page agrees with the text on the rest and on more launches", "[html]") {
  const Trace trace = MakeHostile("name");
  pitot::analyze::Judgement judgement;
  REQUIRE(JudgeRequest(trace, pitot::analyze::ChooseRequest(trace, 0), nullptr, &judgement).ok());
  pitot::analyze::Verdict& verdict = judgement.verdict;
  verdict.kind = pitot::analyze::VerdictKind::kCauses;
  verdict.level = pitot::analyze::Baseline::Level::kCell;
  verdict.causes.resize(1);
  verdict.rest_ns = 16 * kMs;
  verdict.unnamed = 4;
  verdict.unnamed_ns = 13 * kMs;
  HtmlReport report;
  report.judgement = &judgement;
  const std::string rest = "rest +16.0 ms: +13.0 ms of 4 lesser causes, +3.0 ms within the normal range";
  CHECK(ReportHtml(trace, report).find(rest) != std::string::npos);
  CHECK(VerdictText(judgement.index, judgement.blame, verdict).find(rest) != std::string::npos);

  verdict.kind = pitot::analyze::VerdictKind::kMoreWork;
  verdict.causes.clear();
  verdict.more_of = "launches";
  verdict.more_factor = 1.82;
  const std::string more = "the same work with 1.82 times the usual launches, and no part stands out";
  CHECK(HeadlineOf(ReportHtml(trace, report)) == SentenceOf(judgement));
  CHECK(SentenceOf(judgement).find(": " + more) != std::string::npos);
  CHECK(VerdictText(judgement.index, judgement.blame, verdict).find("why  " + more) != std::string::npos);
  verdict.level = pitot::analyze::Baseline::Level::kRoute;  // then it may be a larger request
  CHECK(HeadlineOf(ReportHtml(trace, report)) == SentenceOf(judgement));
  CHECK(SentenceOf(judgement).find(": more work, not slower: 1.82 times the usual launches.") != std::string::npos);
}

TEST_CASE("the page agrees with the text on the moment, advice and contradictions", "[html]") {
  const Trace trace = MakeHostile("name");
  pitot::analyze::Judgement judgement;
  REQUIRE(JudgeRequest(trace, pitot::analyze::ChooseRequest(trace, 0), nullptr, &judgement).ok());
  pitot::analyze::Verdict& verdict = judgement.verdict;
  verdict.level = pitot::analyze::Baseline::Level::kCell;
  verdict.kind = pitot::analyze::VerdictKind::kUniform;
  verdict.largest.clear();
  verdict.advice = AdviceFor(verdict.kind);
  verdict.like = 400;
  verdict.like_median_ns = 8 * kMs;
  verdict.meanwhile = 12;
  verdict.meanwhile_slow = 9;
  verdict.causes.resize(1);
  verdict.causes[0].contradicted_by = "gpu_clock";
  verdict.causes[0].contradiction = "either this or that";
  verdict.causes[0].unsure = "few normal requests";
  pitot::analyze::AnalysisReport analysis;
  analysis.analyzers.resize(1);
  analysis.analyzers[0].findings.resize(1);
  pitot::analyze::FindingRow& finding = analysis.analyzers[0].findings[0];
  finding.contradictions.push_back({"a11.queue_full", "GPU 0 stream 7", "either the one or the other"});
  finding.confidence = 0.5;
  finding.caveats.push_back("events were lost");
  finding.repeats = 2;
  HtmlReport report;
  report.judgement = &judgement;
  report.analysis = &analysis;
  report.others = {"0000000000000002 20.1 ms: host_lock"};

  const std::string page = ReportHtml(trace, report);
  std::string text = VerdictText(judgement.index, judgement.blame, verdict, 10'000);

  for (const char* const said :
       {"these were slow, too: half of all 400 requests of its route and size in the trace took at most 8.0 ms",
        "9 of the 12 similar requests in flight were slow, too, each with at least half of this excess: look at that "
        "moment, not only at this "
        "request",
        "Look for something that slows a whole machine at once", "but contradicted by gpu_clock: either this or that",
        "confidence 0.00 (few normal requests); fixing it would save"}) {
    INFO(said);
    CHECK(page.find(said) != std::string::npos);
    CHECK(text.find(said) != std::string::npos);
  }
  CHECK(page.find("but either the one or the other") != std::string::npos);
  CHECK(page.find("contradicted by a11.queue_full of GPU 0 stream 7") > page.find("but either the one or the other"));
  CHECK(page.find("but events were lost") != std::string::npos);
  CHECK(page.find("and 2 lesser findings like it") != std::string::npos);
  CHECK(page.find("Also fired: 0000000000000002 20.1 ms: host_lock") != std::string::npos);
}

TEST_CASE("the page opens with the sentence of every other output, and folds what statisticians ask", "[html]") {
  const Trace trace = MakeHostile("name");
  pitot::analyze::Judgement judgement;
  REQUIRE(JudgeRequest(trace, pitot::analyze::ChooseRequest(trace, 0), nullptr, &judgement).ok());
  pitot::analyze::Verdict& verdict = judgement.verdict;
  verdict.kind = pitot::analyze::VerdictKind::kCauses;
  verdict.level = pitot::analyze::Baseline::Level::kCell;
  verdict.largest.clear();
  verdict.causes.resize(1);
  verdict.causes[0].blame = pitot::analyze::Blame::kHostLock;
  verdict.causes[0].blame_ns = 89'700'000;
  pitot::analyze::AnalysisReport analysis;
  analysis.analyzers.resize(1);
  analysis.analyzers[0].findings.resize(2);
  for (pitot::analyze::FindingRow& finding : analysis.analyzers[0].findings) finding.severity = pitot::Severity::kHigh;
  analysis.analyzers[0].findings[0].summary = "shown";
  analysis.analyzers[0].findings[0].code = "a41.driver";
  analysis.analyzers[0].findings[0].confidence = 0.6;
  analysis.analyzers[0].findings[1].summary = "without confidence";
  HtmlReport report;
  report.judgement = &judgement;
  report.analysis = &analysis;

  const std::string page = ReportHtml(trace, report);

  CHECK(HeadlineOf(page) == SentenceOf(judgement));
  CHECK(HeadlineOf(page).find("Request 0000000000000002 (name) took ") == 0);
  CHECK(HeadlineOf(page).find(": it waited 89.7 ms for a lock.") != std::string::npos);
  CHECK(page.find(" <small>host_lock</small></h1>") != std::string::npos);
  CHECK(page.find("Slower than ") > page.find("<details>"));
  CHECK(page.find("without confidence") == std::string::npos);
  const size_t shown = page.find("shown");
  CHECK(page.find("<details>", shown) < page.find("a41.driver"));
}

TEST_CASE("the page needs nothing from elsewhere and runs nothing", "[html]") {
  const std::string page = PageOf(MakeHostile("name"), "name");

  CHECK(page.find("default-src 'none'") != std::string::npos);
  for (const char* what : {"http:", "https:", "url(", "@import", "src=", "href=", "<script", "javascript:"}) {
    INFO(what);
    CHECK(page.find(what) == std::string::npos);
  }
}

TEST_CASE("the page has the cost on threads of both kinds, and doubts that of a short run", "[html]") {
  const auto page = [](const char* seconds) {
    Trace trace = MakeHostile("plain");
    trace.attributes.clear();
    for (const auto& [key, value] : std::map<std::string, std::string>{
             {"cost.recording", "0.1 % of all"}, {"cost.own_threads", "3.0 % of all"}, {"cost.seconds", seconds}})
      trace.attributes.push_back({trace.strings.Add(key), trace.strings.Add(value)});
    return PageOf(trace, "plain");
  };
  const std::string costs = "Recording cost on your threads: 0.1 % of all. Pitot&#39;s own threads: 3.0 % of all. ";

  CHECK(page("9.9").find(costs + "The recorder had run for 9.9 s: a short run inflates its cost.") !=
        std::string::npos);
  for (const char* const seconds : {"10.0", "", "unknown"}) {
    CAPTURE(seconds);
    CHECK(page(seconds).find(costs + "</p>") != std::string::npos);
  }
}

TEST_CASE("lanes of threads with one name have their numbers", "[html]") {
  Trace trace = MakeHostile("plain");
  REQUIRE(trace.threads.size() == 2);
  const std::string different = PageOf(trace, "plain");
  trace.threads[1].name = trace.threads[0].name;
  const std::string page = PageOf(trace, "plain");

  CHECK(different.find("<p>plain1</p>") != std::string::npos);
  CHECK(page.find("<p>plain1</p>") == std::string::npos);
  for (const auto& thread : trace.threads) {
    CAPTURE(thread.number);
    CHECK(page.find("<p>plain1 #" + std::to_string(thread.number) + "</p>") != std::string::npos);
  }
}

TEST_CASE("bytes that are not text do not break the page", "[html]") {
  const std::string name = std::string("\xff\xc0\x80") + '\x01' + "n\n";
  const std::string page = PageOf(MakeHostile(name), name);

  for (const char byte : {'\xff', '\xc0', '\x01'}) CHECK(page.find(byte) == std::string::npos);
  CHECK(page.find("\xef\xbf\xbd") != std::string::npos);
}

TEST_CASE("the page stays small for any trace", "[html]") {
  TraceMaker maker;
  maker.trace.window_begin_ns = kBegin;
  maker.trace.window_end_ns = kBegin + 2'000 * kMs;
  const uint32_t thread = maker.Thread("http"), scope = maker.Site(pitot::SiteKind::kScope, "step");
  const uint32_t row = maker.Request(1, "/long", kBegin, 1'900 * kMs);
  maker.trace.requests[row].begin_thread = maker.trace.requests[row].end_thread = thread;
  for (int64_t i = 0; i < 20'000; ++i)
    maker.Event(thread, scope, kBegin + i * 95'000, 50'000, {row, pitot::model::kNone});
  const Trace trace = maker.Finish();

  const std::string page = PageOf(trace, "name");

  CHECK(page.size() < 200'000);
  CHECK(page.size() > 5'000);
}

TEST_CASE("a crowded picture shows the largest share of each column, to the end", "[html]") {
  const Trace trace = MakeHostile("plain");
  pitot::analyze::Judgement judgement;
  REQUIRE(JudgeRequest(trace, pitot::analyze::ChooseRequest(trace, 0), nullptr, &judgement).ok());
  pitot::analyze::RequestBlame& blame = judgement.blame;
  blame.segments.clear();
  // 70 ms of code that loses its CPU again and again, and then waits for a lock.
  const auto add = [&](pitot::analyze::Blame what, int64_t ns) {
    pitot::analyze::BlameSegment segment;
    segment.begin_ns = blame.segments.empty() ? blame.begin_ns : blame.segments.back().end_ns;
    segment.end_ns = segment.begin_ns + ns;
    segment.blame = what;
    blame.segments.push_back(segment);
  };
  for (int i = 0; i < 1'000; ++i) {
    add(pitot::analyze::Blame::kHostOncpuFramework, 60'000);
    add(pitot::analyze::Blame::kHostRunqueue, 10'000);
  }
  add(pitot::analyze::Blame::kHostLock, blame.end_ns - blame.segments.back().end_ns);
  HtmlReport report;
  report.judgement = &judgement;

  const std::string page = ReportHtml(trace, report);
  const size_t lane = page.find("<p>the request</p>"), end = page.find("</svg>", lane);
  std::map<std::string, double> widths;
  int bars = 0;
  for (size_t at = lane; (at = page.find("<rect class=\"", at)) < end; ++at, ++bars) {
    const size_t name = at + 13, width = page.find("width=\"", at) + 7;
    widths[page.substr(name, page.find('"', name) - name)] += std::stod(page.substr(width));
  }
  CHECK(bars <= 250);
  CHECK(widths["code"] == Approx(1000.0 * 70 / 90).margin(8));
  CHECK(widths["wait"] == Approx(1000.0 * 20 / 90).margin(8));
}

namespace {

// The page on a request whose first segment is time on a GPU, by that row of `gpu`.
std::string PageOfGpuTime(const Trace& trace, uint32_t gpu) {
  pitot::analyze::Judgement judgement;
  REQUIRE(JudgeRequest(trace, pitot::analyze::ChooseRequest(trace, 0), nullptr, &judgement).ok());
  judgement.blame.segments.at(0).blame = pitot::analyze::Blame::kGpuExecExpected;
  judgement.blame.segments.at(0).gpu = gpu;
  HtmlReport report;
  report.judgement = &judgement;
  return ReportHtml(trace, report);
}

}  // namespace

TEST_CASE("the page's title and its first line have the id of the request", "[html]") {
  const std::string page = PageOf(MakeHostile("name"), "name");

  CHECK(page.find("<title>incident name, name, request 0000000000000002</title>") != std::string::npos);
  CHECK(page.find("<p class=\"soft\">incident name, name, request 0000000000000002, name on name</p>") !=
        std::string::npos);
  HtmlReport unjudged;
  CHECK(ReportHtml(MakeHostile("name"), unjudged).find("name, request 0000000000000002</title>") != std::string::npos);
}

TEST_CASE("the legend speaks of kernels only if some were recorded in the request's time", "[html]") {
  Trace trace = MakeHostile("name");
  trace.devices.push_back({0, trace.strings.Add("H100")});
  trace.streams.push_back({0, 1, 7, 0, 0, 2});
  for (const auto kind : {pitot::GpuKind::kSpan, pitot::GpuKind::kKernel}) {
    trace.gpu.begin_ns.push_back(kBegin + 60 * kMs);
    trace.gpu.duration_ns.push_back(kMs);
    trace.gpu.kind.push_back(kind);
    trace.gpu.stream.push_back(0);
    trace.gpu.name.push_back(trace.strings.Add("forward"));
    trace.gpu.call.push_back(0);
    trace.gpu.shape.push_back(pitot::model::kNone);
    trace.gpu.bytes.push_back(0);
    trace.gpu.graph.push_back(0);
    trace.gpu.node.push_back(0);
    trace.gpu.scope_path.push_back(0);
  }
  const std::string kernels = "</i>kernels</li>", work = "</i>work of GPUs</li>";

  const std::string by_counters = PageOfGpuTime(trace, pitot::model::kNone), by_span = PageOfGpuTime(trace, 0),
                    by_kernel = PageOfGpuTime(trace, 1);

  for (const std::string& page : {by_counters, by_span}) {
    CHECK(page.find(work) != std::string::npos);
    CHECK(page.find(kernels) == std::string::npos);
  }
  CHECK(by_kernel.find(kernels) != std::string::npos);
  CHECK(by_kernel.find(work) == std::string::npos);
}

TEST_CASE("the page says that GPU work was not recorded in the request's time", "[html]") {
  Trace trace = MakeHostile("name");
  const std::string row = "<div class=\"name\">kernels, copies, launches</div><div class=\"num it\">not recorded</div>";
  CHECK(PageOf(trace, "name").find(row) == std::string::npos);  // there is no GPU

  trace.depths = {{trace.window_begin_ns, trace.window_end_ns, pitot::Depth::kScopes}};
  CHECK(PageOf(trace, "name").find(row) != std::string::npos);
  CHECK(PageOf(trace, "name").find("Kernels were not recorded.") == std::string::npos);
  trace.attributes.push_back({trace.strings.Add("collector.cupti"), trace.strings.Add("refused: <no> libcupti")});
  CHECK(PageOf(trace, "name").find("Kernels were not recorded: &lt;no&gt; libcupti.") != std::string::npos);

  trace.depths[0].depth = pitot::Depth::kKernels;
  CHECK(PageOf(trace, "name").find(row) == std::string::npos);
}

TEST_CASE("a finding's value that was not recorded is said to be so", "[html]") {
  const Trace trace = MakeHostile("name");
  pitot::analyze::AnalysisReport analysis;
  analysis.analyzers.resize(1);
  analysis.analyzers[0].findings.resize(1);
  pitot::analyze::FindingRow& finding = analysis.analyzers[0].findings[0];
  finding.metric = "launches";
  finding.confidence = 1;
  finding.value = std::numeric_limits<double>::quiet_NaN();
  HtmlReport report;
  report.analysis = &analysis;

  for (const char* const unit : {"1", "ns", "bytes"}) {
    finding.threshold = {"most", unit, "pitot", 2};
    CHECK(ReportHtml(trace, report).find("launches is not recorded, threshold ") != std::string::npos);
  }
}

TEST_CASE("parts are compared with usual as coarsely as the verdict did", "[html]") {
  const Trace trace = MakeHostile("name");
  pitot::analyze::Judgement judgement;
  REQUIRE(JudgeRequest(trace, pitot::analyze::ChooseRequest(trace, 0), nullptr, &judgement).ok());
  judgement.blame.blame = {};
  judgement.blame.blame[pitot::analyze::Blame::kGpuExecExpected] = 30 * kMs;
  judgement.blame.blame[pitot::analyze::Blame::kHostOncpuFramework] = 60 * kMs;
  pitot::analyze::Verdict& verdict = judgement.verdict;
  verdict.level = pitot::analyze::Baseline::Level::kCell;
  verdict.normal = {};
  verdict.normal[pitot::analyze::Blame::kHostOncpuFramework] = 50 * kMs;
  HtmlReport report;
  report.judgement = &judgement;
  const std::string fine = ReportHtml(trace, report);
  verdict.is_coarse = true;

  const std::string coarse = ReportHtml(trace, report);

  CHECK(fine.find(">gpu_<wbr>exec_<wbr>expected<") != std::string::npos);
  CHECK(fine.find("different depths") == std::string::npos);
  CHECK(coarse.find(">gpu_<wbr>exec_<wbr>expected<") == std::string::npos);
  CHECK(coarse.find("<div class=\"num it\">90.000</div><div class=\"num usual\">50.000</div>"
                    "<div class=\"num more\">+40.000</div>") != std::string::npos);
  const std::string why = "recorded at different depths: time on GPUs counts as the code waiting for them";
  CHECK(coarse.find(why) != std::string::npos);
  CHECK(VerdictText(judgement.index, judgement.blame, verdict).find(why) != std::string::npos);
}

namespace {

std::string PageOfToken(const Trace& trace) {
  pitot::analyze::Judgement judgement;
  pitot::analyze::Asked asked;
  REQUIRE(pitot::analyze::BlameIndex::Make(trace, {}, &judgement.index).ok());
  REQUIRE(ChooseAsked(judgement.index, &asked).ok());
  REQUIRE(JudgeAsked(trace, asked, nullptr, &judgement).ok());
  HtmlReport report;
  report.judgement = &judgement;
  return ReportHtml(trace, report);
}

}  // namespace

TEST_CASE("the tree's bars add up, and the root is marked", "[html]") {
  const std::string page = PageOfToken(decode_server::DecodeServer().Finish());
  const std::string tree =
      page.substr(page.find("<ul class=\"tree\">"), page.find("</ul>", page.find("<ul class=\"tree\">")));

  struct Bar {
    int depth;
    double x, width;
  };
  std::vector<Bar> bars;
  const std::regex node("<li style=\"--d:(\\d)\"[^\\n]*? x=\"([0-9.]+)\" y=\"0\" width=\"([0-9.]+)\"");
  for (std::sregex_iterator at(tree.begin(), tree.end(), node), end; at != end; ++at)
    bars.push_back({std::stoi((*at)[1]), std::stod((*at)[2]), std::stod((*at)[3])});
  REQUIRE(bars.size() >= 3);
  CHECK(bars[0].x == 0);
  for (size_t i = 1; i < bars.size(); ++i) {
    if (bars[i].depth > bars[i - 1].depth) {
      CHECK(bars[i].x == Approx(bars[i - 1].x).margin(0.1));
      CHECK(bars[i].width <= bars[i - 1].width + 1.6);
    }
  }
  double top = 0;
  for (const Bar& bar : bars) top += bar.depth == 0 ? bar.width : 0;
  CHECK(top == Approx(1000).margin(4));
  CHECK(tree.find(" class=\"root\"") != std::string::npos);
  CHECK(tree.find("<em>the root</em>") == tree.rfind("<em>the root</em>"));
}

TEST_CASE("each member of the batch has a lane, the culprit's and the request's own marked", "[html]") {
  const std::string page = PageOfToken(decode_server::DecodeServer().Finish());

  CHECK(page.find("<h3>Its batch on decode: 3 members, 100.0 ms</h3>") != std::string::npos);
  const size_t guilty = page.find(
      "<div class=\"lane guilty\"><p>whose fault: request 000000000000000c (/generate): reads its prompt</p>");
  const size_t own = page.find(
      "<div class=\"lane victim\"><p>the request itself: request 000000000000000a (/generate): puts out tokens</p>");
  const size_t other = page.find("<p>request 000000000000000b (/generate): puts out tokens</p>");
  CHECK(guilty < own);
  CHECK(own < other);
  CHECK(other != std::string::npos);
  CHECK(page.find("in the batch for 100.0 ms</title>", guilty) < own);
}

TEST_CASE("a culprit's lane has what it did in the request's time", "[html]") {
  const std::string page = PageOfToken(decode_server::DecodeServer().Finish());

  const size_t others = page.find("<h3>What the others did meanwhile</h3>");
  REQUIRE(others != std::string::npos);
  const size_t caption = page.find("Meanwhile: in &quot;prefill&quot; 90.0 ms", others);
  CHECK(caption != std::string::npos);
  CHECK(page.find("<rect class=\"code\"", caption) < page.find("</svg>", caption));
}

TEST_CASE("six of many members have lanes, and the others are counted", "[html]") {
  decode_server::DecodeServer server;
  Trace& trace = server.maker.trace;
  for (uint64_t id = 100; id < 120; ++id) {
    const uint32_t request = server.maker.Request(id, "/generate", decode_server::kMs, 2'000 * decode_server::kMs);
    for (uint32_t batch = 0; batch < decode_server::kIterations; ++batch)
      trace.members.push_back({batch, request, trace.batches[batch].begin_ns});
  }
  std::stable_sort(trace.members.begin(), trace.members.end(), [](auto& a, auto& b) { return a.batch < b.batch; });
  for (pitot::model::BatchRow& batch : trace.batches) batch.member_count = 0;
  for (uint32_t row = 0; row < trace.members.size(); ++row) {
    pitot::model::BatchRow& batch = trace.batches[trace.members[row].batch];
    if (batch.member_count++ == 0) batch.first_member = row;
  }
  const std::string page = PageOfToken(server.Finish());

  CHECK(page.find("23 members") != std::string::npos);
  CHECK(page.find("and 17 other members") != std::string::npos);
}

TEST_CASE("a finding's times are those before or after the trigger, and a symptom with a likely cause is folded",
          "[html]") {
  const Trace trace = MakeHostile("name");
  pitot::analyze::Judgement judgement;
  REQUIRE(JudgeRequest(trace, pitot::analyze::ChooseRequest(trace, 0), nullptr, &judgement).ok());
  const auto segment = std::max_element(judgement.blame.segments.begin(), judgement.blame.segments.end(),
                                        [](auto& a, auto& b) { return a.end_ns - a.begin_ns < b.end_ns - b.begin_ns; });
  pitot::analyze::Cause cause;
  cause.blame = segment->blame;
  cause.confidence = GENERATE(0.49, 0.5);
  const bool is_explained = cause.confidence >= 0.5;
  judgement.verdict.kind = pitot::analyze::VerdictKind::kCauses;
  judgement.verdict.causes.push_back(cause);
  pitot::analyze::AnalysisReport analysis;
  analysis.analyzers.resize(1);
  for (const char* code : {"a04.idle", "a15.communication"}) {
    pitot::analyze::FindingRow finding;
    finding.code = code;
    finding.summary = std::string("found by ") + code;
    finding.severity = pitot::Severity::kHigh;
    finding.confidence = 0.9;
    finding.evidence.push_back({pitot::EvidenceTable::kWindow, 0, 0, segment->begin_ns, segment->end_ns, "idle"});
    finding.evidence.push_back({pitot::EvidenceTable::kWindow, 0, 0, kBegin - 10 * kMs, kBegin - 9 * kMs, "old"});
    finding.evidence.push_back({pitot::EvidenceTable::kWindow, 0, 0, kBegin + 93 * kMs, kBegin + 94 * kMs, "new"});
    analysis.analyzers[0].findings.push_back(finding);
  }
  HtmlReport report;
  report.judgement = &judgement;
  report.analysis = &analysis;
  const std::string page = ReportHtml(trace, report);

  CHECK(page.find("100.0 ms before the trigger, for 1.00 ms: old") != std::string::npos);
  CHECK(page.find("3.00 ms after the trigger, for 1.00 ms: new") != std::string::npos);
  CHECK(page.find("found by a15.communication") < page.find("1 more finding"));
  CHECK((page.find("found by a04.idle") > page.find("1 more finding")) == is_explained);
  CHECK((page.find("explained by the verdict") != std::string::npos) == is_explained);
}

TEST_CASE("categories are small print in the tree and in the lines of others that fired", "[html]") {
  const Trace trace = MakeHostile("name");
  pitot::analyze::Judgement judgement;
  REQUIRE(JudgeRequest(trace, pitot::analyze::ChooseRequest(trace, 0), nullptr, &judgement).ok());
  HtmlReport report;
  report.judgement = &judgement;
  report.others = {"0000000000000007 97.5 ms: waited 86.1 ms for lock \"cache\" (host_lock +86.1 ms, 97 %)"};
  const std::string page = ReportHtml(trace, report);

  CHECK(page.find("for lock &quot;cache&quot; <small>(host_lock +86.1 ms, 97 %)</small>") != std::string::npos);
  const size_t tree = page.find("<ul class=\"tree\">");
  REQUIRE(tree != std::string::npos);
  const std::string lines = page.substr(tree, page.find("</ul>", tree) - tree);
  CHECK(lines.find(" <small>executor_busy</small>") != std::string::npos);
  CHECK(lines.find("(executor_busy)") == std::string::npos);
}
