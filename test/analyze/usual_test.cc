// SPDX-License-Identifier: Apache-2.0
//
// Findings that most windows of a server have.
#include "analyze/judge/usual.h"

#include <catch2/catch.hpp>
#include <string>

#include "analyze/judge/shown.h"
#include "pitot/analyze/judge.h"

namespace {

using pitot::analyze::AnalysisReport;
using pitot::judge::IsUsual;
using pitot::judge::UsualFindings;

AnalysisReport With(std::initializer_list<const char*> codes, const char* subject = "/generate") {
  AnalysisReport analysis;
  analysis.analyzers.resize(1);
  for (const char* const code : codes) {
    analysis.analyzers[0].findings.emplace_back();
    analysis.analyzers[0].findings.back().code = code;
    analysis.analyzers[0].findings.back().subject = subject;
  }
  return analysis;
}

// Notes windows of a second, one after the other.
struct Server {
  void Note(const AnalysisReport& analysis, int windows = 1) {
    for (; windows > 0; --windows, at_ns += 1'000'000'000) usual.Note({at_ns, at_ns + 1'000'000'000}, analysis);
  }
  pitot::analyze::FindingRow Mark(const char* code, const char* subject = "/generate") const {
    AnalysisReport analysis = With({code}, subject);
    usual.Mark(&analysis);
    return analysis.analyzers[0].findings[0];
  }
  UsualFindings usual;
  int64_t at_ns = 0;
};

}  // namespace

TEST_CASE("a finding of half the windows is usual, of that subject only", "[usual]") {
  Server server;
  server.Note(With({"a29.prefill_mixed"}), 4);
  CHECK(!IsUsual(server.Mark("a29.prefill_mixed")));  // four windows say nothing
  server.Note(With({}), 4);

  CHECK(IsUsual(server.Mark("a29.prefill_mixed")));
  CHECK(pitot::judge::UsualText(server.Mark("a29.prefill_mixed")) == "usual here: in 4 of the last 8 windows");
  CHECK(!IsUsual(server.Mark("a29.prefill_mixed", "/chat")));
  CHECK(!IsUsual(server.Mark("a29.preemption")));
  server.Note(With({}));
  CHECK(!IsUsual(server.Mark("a29.prefill_mixed")));
}

TEST_CASE("only the last 32 windows count", "[usual]") {
  Server server;
  server.Note(With({"a04.idle"}), 100);
  CHECK(server.Mark("a04.idle").usual_in == 32);
  CHECK(server.Mark("a04.idle").of_windows == 32);
  server.Note(With({}), 16);
  CHECK(server.Mark("a04.idle").usual_in == 16);
  server.Note(With({}), 16);
  CHECK(server.Mark("a04.idle").usual_in == 0);
}

TEST_CASE("windows of a storm that overlap count once", "[usual]") {
  Server server;
  server.Note(With({}), 8);
  const pitot::model::Interval window = {server.at_ns, server.at_ns + 5'000'000'000};
  for (int incident = 0; incident < 20; ++incident)
    server.usual.Note({window.begin_ns + incident, window.end_ns + incident}, With({"a36.outliers"}));

  CHECK(server.Mark("a36.outliers").usual_in == 1);
  CHECK(server.Mark("a36.outliers").of_windows == 9);
}

TEST_CASE("findings with ever new subjects take bounded memory, and known ones stay", "[usual]") {
  Server server;
  for (int window = 0; window < 64; ++window) {
    AnalysisReport analysis = With({"a04.idle"});
    for (int i = 0; i < 200; ++i) {
      const AnalysisReport one = With({"a36.outliers"}, ("subject " + std::to_string(200 * window + i)).c_str());
      analysis.analyzers.push_back(one.analyzers[0]);
    }
    server.Note(analysis);
  }
  CHECK(server.usual.size() <= 1024);
  CHECK(server.Mark("a04.idle").usual_in == 32);
}

TEST_CASE("the first 32 samples are analyzed, then every eighth", "[usual]") {
  UsualFindings usual;
  int due = 0;
  for (int sample = 0; sample < 32; ++sample) due += usual.IsSampleDue() ? 1 : 0;
  CHECK(due == 32);
  for (int sample = 0; sample < 80; ++sample) due += usual.IsSampleDue() ? 1 : 0;
  CHECK(due == 42);
}

TEST_CASE("a usual finding is not among the gravest", "[usual]") {
  Server server;
  server.Note(With({"a29.prefill_mixed"}), 8);
  AnalysisReport analysis = With({"a29.prefill_mixed", "a29.queueing"});
  for (pitot::analyze::FindingRow& row : analysis.analyzers[0].findings) {
    row.severity = pitot::Severity::kHigh;
    row.confidence = 0.9;
    row.summary = "found";
  }
  CHECK(pitot::analyze::FindingsText(analysis) ==
        "in window   a29.prefill_mixed: found\nin window   a29.queueing: found\n");
  server.usual.Mark(&analysis);
  CHECK(pitot::analyze::FindingsText(analysis) == "in window   a29.queueing: found\n");
}

TEST_CASE("a symptom in the time that the verdict's causes took is explained by it", "[usual]") {
  pitot::analyze::Judgement judgement;
  judgement.blame.begin_ns = 1000, judgement.blame.end_ns = 2000;
  pitot::analyze::BlameSegment waits;
  waits.begin_ns = 1100, waits.end_ns = 1900;
  waits.blame = pitot::analyze::Blame::kHostLock;
  judgement.blame.segments.push_back(waits);
  pitot::analyze::Cause cause;
  cause.blame = waits.blame;
  cause.confidence = 0.9;
  judgement.verdict.causes.push_back(cause);
  judgement.verdict.kind = pitot::analyze::VerdictKind::kCauses;
  AnalysisReport analysis = With({"a04.idle"});
  pitot::analyze::FindingRow& finding = analysis.analyzers[0].findings[0];
  finding.severity = pitot::Severity::kHigh;
  finding.confidence = 0.9;
  finding.summary = "the GPU had no work";
  const auto is_in_front = [&](const char* code, int64_t begin_ns, int64_t end_ns) {
    finding.code = code;
    finding.evidence.clear();
    finding.evidence.push_back({pitot::EvidenceTable::kWindow, 0, 0, 0, 500, ""});  // long before the request
    finding.evidence.push_back({pitot::EvidenceTable::kWindow, 0, 0, begin_ns, end_ns, ""});
    return pitot::analyze::FindingsText(analysis, 100, &judgement) != "";
  };

  CHECK(!is_in_front("a04.idle", 1100, 1900));
  CHECK(!is_in_front("a04.idle", 1800, 2000));
  CHECK(is_in_front("a04.idle", 1850, 2000));           // most of it is something else
  CHECK(is_in_front("a15.communication", 1100, 1900));  // a cause of its own
  judgement.verdict.kind = pitot::analyze::VerdictKind::kUndetermined;
  CHECK(is_in_front("a04.idle", 1100, 1900));
}
