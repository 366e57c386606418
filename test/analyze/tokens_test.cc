// SPDX-License-Identifier: Apache-2.0
//
// Why a token was late, by the time between it and the one before it.
#include "pitot/analyze/tokens.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "analyze/decode_server.h"
#include "analyze/prompt_server.h"
#include "pitot/analyze/learn.h"

namespace pitot::test {

using analyze::Baseline;
using analyze::Blame;
using analyze::BlameIndex;
using analyze::BlameSegment;
using analyze::Judgement;
using analyze::RequestBlame;
using analyze::VerdictKind;
using decode_server::DecodeServer;
using decode_server::kIterations;
using decode_server::kLate;
using decode_server::kMs;
using decode_server::kPromptNs;
using decode_server::kUsualNs;
using model::kNone;
using model::NormKind;
using model::Trace;
using prompt_server::kWindowNs;
using prompt_server::PromptServer;

namespace {

// The context of BlameOptions::is_over.
struct Asks {
  static bool Count(void* context) {
    auto* const asks = static_cast<Asks*>(context);
    return ++asks->times > asks->most;
  }
  analyze::BlameOptions Options() {
    analyze::BlameOptions options;
    options.is_over = Count;
    options.is_over_context = this;
    return options;
  }
  uint64_t times = 0, most = UINT64_MAX;
};

analyze::Asked Chosen(const Trace& trace) {
  BlameIndex index;
  REQUIRE(BlameIndex::Make(trace, {}, &index).ok());
  analyze::Asked asked;
  REQUIRE(ChooseAsked(index, &asked).ok());
  return asked;
}

// What a process learned from `samples` windows, one after the other.
Baseline LearnedFrom(int64_t samples) {
  Baseline baseline;
  for (int64_t i = 0; i < samples; ++i) {
    const Trace trace = PromptServer(20, i * kWindowNs).Finish();
    BlameIndex index;
    REQUIRE(BlameIndex::Make(trace, {}, &index).ok());
    REQUIRE(LearnStays(index, {}, &baseline).ok());
  }
  return baseline;
}
std::vector<model::NormRow> Known(const Baseline& baseline, int64_t now_ns, NormKind kind) {
  Trace trace;
  REQUIRE(baseline.AddNorms(now_ns, &trace).ok());
  std::vector<model::NormRow> rows;
  for (const model::NormRow& row : trace.norms) {
    if (row.kind == kind) rows.push_back(row);
  }
  return rows;
}
Judgement JudgeFirst(const Trace& trace, uint32_t token) {
  Judgement judgement;
  REQUIRE(JudgeToken(trace, token, &judgement).ok());
  return judgement;
}

}  // namespace

TEST_CASE("a token is late because of the time since the one before it, to the nanosecond", "[tokens]") {
  const Trace trace = DecodeServer().Finish();
  const uint32_t token = Chosen(trace).token;
  REQUIRE(token == 2 * kLate);
  Judgement judgement;
  REQUIRE(JudgeToken(trace, token, &judgement).ok());

  const RequestBlame& blame = judgement.blame;
  CHECK(blame.token == token);
  int64_t at_ns = trace.tokens[token - 2].at_ns;
  CHECK(blame.begin_ns == at_ns);
  for (const BlameSegment& segment : blame.segments) {
    CHECK(segment.begin_ns == at_ns);
    at_ns = segment.end_ns;
  }
  CHECK(at_ns == trace.tokens[token].at_ns);
  CHECK(blame.blame.Total() == kUsualNs + kPromptNs);
  CHECK(blame.blame[Blame::kExecutorBusy] == kPromptNs);

  REQUIRE(judgement.verdict.kind == VerdictKind::kCauses);
  CHECK(judgement.verdict.causes[0].blame == Blame::kExecutorBusy);
  CHECK(judgement.verdict.causes[0].by.request == 2);
  CHECK(std::string(judgement.verdict.causes[0].advice.code) == "split_long_work");
  const std::string text = VerdictText(judgement.index, blame, judgement.verdict);
  INFO(text);
  CHECK(text.find("  100.0 ms between two tokens (p100; typical of this route: 10.0)\n") != std::string::npos);
  CHECK(text.find("in an iteration of decode with 3 members, 1 of them without a token yet\n") != std::string::npos);
}

TEST_CASE("a token is compared with one of each other iteration, and none of its own time", "[tokens]") {
  const Trace trace = DecodeServer().Finish();
  BlameIndex index;
  REQUIRE(BlameIndex::Make(trace, {}, &index).ok());
  Baseline baseline;
  REQUIRE(LearnTokens(index, 2 * kLate, &baseline).ok());
  CHECK(baseline.size() == kIterations - 2);  // without the first, which is of another kind, and the late one

  std::vector<analyze::BaselineRow> rows;
  baseline.Find("/generate", 2, trace.tokens[2 * kLate].at_ns, 4, &rows);
  REQUIRE(rows.size() == kIterations - 2);  // all of two or three members
  for (const analyze::BaselineRow& row : rows) CHECK(row.blame.Total() == kUsualNs);
}

TEST_CASE("a first token is explained since its request arrived; one after a lost token is not", "[tokens]") {
  DecodeServer server;
  const Trace whole = server.Finish();
  BlameIndex index;
  REQUIRE(BlameIndex::Make(whole, {}, &index).ok());
  RequestBlame blame;
  REQUIRE(FindTokenBlame(index, 0, &blame).ok());
  CHECK(blame.begin_ns == kMs);
  CHECK(blame.blame.Total() == kUsualNs);
  CHECK(FindTokenBlame(index, static_cast<uint32_t>(whole.tokens.size()), &blame).code() ==
        StatusCode::kInvalidArgument);

  Trace cut = whole;
  cut.tokens.erase(cut.tokens.begin(), cut.tokens.begin() + 2);
  REQUIRE(BlameIndex::Make(cut, {}, &index).ok());
  CHECK(FindTokenBlame(index, 0, &blame).code() == StatusCode::kNotFound);
  CHECK(FindTokenBlame(index, 2, &blame).ok());
}

TEST_CASE("a token is found by its number in its request, also if the first ones are lost", "[tokens]") {
  Trace trace = DecodeServer().Finish();
  CHECK(analyze::TokenOf(trace, 0, 1) == 0);
  CHECK(analyze::TokenOf(trace, 1, kLate + 1) == 2 * kLate + 1);
  CHECK(analyze::TokenOf(trace, 0, 0) == kNone);
  CHECK(analyze::TokenOf(trace, 0, kIterations + 1) == kNone);
  CHECK(analyze::TokenOf(trace, 2, 1) == kNone);
  trace.tokens.erase(trace.tokens.begin(), trace.tokens.begin() + 2);
  CHECK(analyze::TokenOf(trace, 0, 1) == kNone);
  CHECK(analyze::TokenOf(trace, 0, 2) == 0);
}

TEST_CASE("twice the unlike tokens and firings take twice the steps, until the time is up", "[tokens]") {
  uint64_t before = 0;
  for (const uint64_t n : {50'000, 100'000}) {
    DecodeServer server;
    const uint32_t other = server.maker.Request(20, "/other", kMs, kMs);
    const int64_t end_ns = server.maker.trace.tokens.back().at_ns;
    for (int64_t i = 0; i < static_cast<int64_t>(n); ++i) {
      server.maker.trace.tokens.push_back({other, server.scheduler, end_ns + i, 1});
      server.Fire("token_gap /generate", end_ns + i);
    }
    const Trace trace = server.Finish();
    Asks asks;
    BlameIndex index;
    REQUIRE(BlameIndex::Make(trace, asks.Options(), &index).ok());
    const auto choose = [&] {
      analyze::Asked asked;
      return ChooseAsked(index, &asked);
    };
    const auto learn = [&] {
      Baseline baseline;
      return LearnTokens(index, 2 * kLate, &baseline);
    };

    asks.times = 0;
    REQUIRE(choose().ok());
    CHECK(asks.times == n / 1024);
    asks.times = 0;
    REQUIRE(learn().ok());
    CHECK(asks.times > 2 * n / 1024);
    if (before != 0) CHECK(asks.times < before * 5 / 2);
    before = asks.times;
    for (const uint64_t most : {uint64_t{0}, n / 1024 / 2, n / 1024}) {
      asks = {0, most};
      CHECK(learn().code() == StatusCode::kResourceExhausted);
      CHECK(asks.times == most + 1);
      asks = {0, most};
      CHECK(choose().ok() == (most == n / 1024));
    }
  }
}

TEST_CASE("a process learns single tokens, four of a kind in a sample, and keeps the newest 64", "[tokens]") {
  for (const NormKind kind : {NormKind::kFirstToken, NormKind::kTokenGap}) {
    const std::vector<model::NormRow> known = Known(LearnedFrom(3), 0, kind);
    REQUIRE(known.size() == 12);
    for (const model::NormRow& row : known) {
      CHECK(row.count == 1);
      CHECK(row.much == (kind == NormKind::kFirstToken ? 0 : 1));
      CHECK(row.total_ns / (5 * kMs) == (kind == NormKind::kFirstToken ? 4 : 1));
      REQUIRE(row.parts.size() == 1);
      CHECK(row.parts[0].ns == row.total_ns);
    }
    CHECK(Known(LearnedFrom(20), 0, kind).size() == 64);
    const int64_t later_ns = 3 * analyze::BaselineOptions().epoch_ns;
    CHECK(Known(LearnedFrom(20), later_ns, kind).empty());  // forgotten like requests
  }
}

TEST_CASE("tokens of failed requests, and those since the first firing, are not learned", "[tokens]") {
  PromptServer server(5);
  server.ServeLate(2'750);
  for (int64_t at_ms = 3'100; at_ms < 5'000; at_ms += 50) server.Serve(at_ms, 15 * kMs);
  server.maker.trace.requests[2].outcome = Outcome::kFailed;
  const Trace trace = server.Finish();
  BlameIndex index;
  REQUIRE(BlameIndex::Make(trace, {}, &index).ok());
  Baseline baseline;
  analyze::LearnOptions options;
  REQUIRE(LearnStays(index, options, &baseline).ok());
  CHECK(Known(baseline, 0, NormKind::kFirstToken).size() == 4);
  for (const model::NormRow& row : Known(baseline, 0, NormKind::kFirstToken)) CHECK(row.total_ns < 21 * kMs);

  Baseline none;
  options.ended_after_ns = trace.window_end_ns;
  REQUIRE(LearnStays(index, options, &none).ok());
  CHECK(none.memory_bytes() == 0);
}

TEST_CASE("a first token in a window with few is judged by those that the process learned before it", "[tokens]") {
  PromptServer server(5, 20 * kWindowNs);
  const uint32_t late = server.ServeLate();
  const Trace alone = server.Finish();
  CHECK(JudgeFirst(alone, late).verdict.kind == VerdictKind::kUndetermined);
  CHECK(JudgeFirst(alone, late).verdict.why_not == "too few tokens like it are known (20 needed)");

  Trace trace = alone;
  REQUIRE(LearnedFrom(20).AddNorms(trace.window_end_ns, &trace).ok());
  const Judgement judgement = JudgeFirst(trace, late);
  const analyze::Verdict& verdict = judgement.verdict;
  const std::string text = VerdictText(judgement.index, judgement.blame, verdict);
  INFO(text);
  REQUIRE(verdict.kind == VerdictKind::kCauses);
  CHECK(verdict.baseline_size == 64);
  CHECK(verdict.is_baseline_kept);
  CHECK(verdict.level == Baseline::Level::kCell);
  CHECK(verdict.causes[0].blame == Blame::kHostPagefaultIo);
  CHECK(verdict.typical_ns / kMs == 20);
  CHECK(text.find("64 first tokens before this trace, of the same route and size") != std::string::npos);
  CHECK(VerdictJson(judgement.index, judgement.blame, verdict).find("\"is_kept\": true") != std::string::npos);
}

TEST_CASE("tokens whose parts do not add up are not compared with", "[tokens]") {
  PromptServer server(5, 20 * kWindowNs);
  const uint32_t late = server.ServeLate();
  Trace trace = server.Finish();
  REQUIRE(LearnedFrom(20).AddNorms(trace.window_end_ns, &trace).ok());
  std::vector<model::NormRow*> tokens;
  for (model::NormRow& row : trace.norms) {
    if (row.kind == NormKind::kFirstToken) tokens.push_back(&row);
  }
  REQUIRE(tokens.size() == 64);
  tokens[0]->parts.assign(3, {0, model::kMaxTimeNs});
  tokens[1]->parts[0].ns -= 1;
  tokens[2]->parts[0].blame = analyze::kBlames;

  CHECK(JudgeFirst(trace, late).verdict.baseline_size == 61);
}

TEST_CASE("the window's own first tokens count if they are more than those learned before it", "[tokens]") {
  PromptServer server(70, 20 * kWindowNs);
  const uint32_t late = server.ServeLate();
  Trace trace = server.Finish();
  REQUIRE(LearnedFrom(20).AddNorms(trace.window_end_ns, &trace).ok());

  const analyze::Verdict verdict = JudgeFirst(trace, late).verdict;

  CHECK(verdict.baseline_size == 70);
  CHECK_FALSE(verdict.is_baseline_kept);
}

TEST_CASE("without time to look at the window's tokens, those learned before it have to do", "[tokens]") {
  PromptServer server(5, 20 * kWindowNs);
  const uint32_t late = server.ServeLate();
  Trace trace = server.Finish();
  REQUIRE(LearnedFrom(20).AddNorms(trace.window_end_ns, &trace).ok());
  Judgement judgement;
  Asks asks;
  REQUIRE(BlameIndex::Make(trace, asks.Options(), &judgement.index).ok());
  asks = {0, 0};
  REQUIRE(JudgeToken(trace, late, &judgement).ok());
  CHECK(judgement.verdict.baseline_size == 64);
}

TEST_CASE("only an incident caused by a late token is about one", "[tokens]") {
  const auto chosen = [](const char* cause) {
    DecodeServer server;
    server.maker.trace.firings.clear();
    server.Fire(cause, kMs + 5 * kUsualNs + 100);
    const Trace trace = server.Finish();
    return Chosen(trace).token;
  };
  CHECK(chosen("latency /generate") == kNone);
  CHECK(chosen("token_gaps /generate") == kNone);
  CHECK(chosen("token_gap /generate") == 8);
  CHECK(chosen("first_token /generate") == 8);
}

}  // namespace pitot::test
