// SPDX-License-Identifier: Apache-2.0
//
// Prompts read in the iterations of others (continuous batching).
#include "analyze/blame/prompts.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "analyze/blame/index_data.h"
#include "analyze/verdict/proof.h"
#include "pitot/analyze/judgement.h"
#include "pitot/analyze/tokens.h"
#include "serialize/sample_trace.h"

using namespace pitot;
using analyze::Blame;
using analyze::Judgement;
using analyze::VerdictKind;
using model::kNone;
using test::TraceMaker;

namespace {

constexpr int64_t kMs = 1'000'000;
constexpr uint32_t kIterations = 300, kLate = 200;
constexpr double kUsualSize = 50;

// Two requests are decoded in iterations of 10 ms. Every tenth iteration also reads the prompt of a new request.
struct Engine {
  struct Options {
    bool has_sizes = true;
    double late_size = 2'500;
    int64_t late_ns = 500 * kMs, prompt_ns = 5 * kMs;
    bool has_late_prompt = true;
    uint32_t prompts_from = 0;
  };
  explicit Engine(const Options& options) {
    const uint32_t thread = maker.Thread("engine");
    const uint32_t step = maker.Site(SiteKind::kScope, "step");
    maker.trace.window_end_ns = 100'000 * kMs;
    for (uint32_t i = 0; i < 2; ++i) Add(thread, kMs, kUsualSize, options.has_sizes);
    int64_t at_ns = kMs;
    for (uint32_t i = 0; i < kIterations; ++i) {
      const bool is_late = i == kLate,
                 has_prompt = is_late ? options.has_late_prompt : i % 10 == 5 && i >= options.prompts_from;
      const int64_t begin_ns = at_ns, extra_ns = is_late ? options.late_ns : has_prompt ? options.prompt_ns : 0;
      at_ns += 10 * kMs + extra_ns + (i % 7) * kMs / 100;
      const uint32_t batch = maker.Batch(1'000 + i, "slots", thread, begin_ns, at_ns - begin_ns);
      maker.trace.batches[batch].close = static_cast<uint8_t>(BatchClose::kStep);
      for (uint32_t one = 0; one < 2; ++one) maker.Member(batch, one, begin_ns);
      if (has_prompt) {
        const uint32_t request = Add(thread, begin_ns, is_late ? options.late_size : kUsualSize, options.has_sizes);
        maker.trace.requests[request].first_token_ns = at_ns - begin_ns;
        maker.Member(batch, request, begin_ns);
        if (is_late) late = request;
      }
      maker.Event(thread, step, begin_ns, at_ns - begin_ns, {kNone, batch});
      for (uint32_t one = 0; one < 2; ++one) maker.trace.tokens.push_back({one, thread, at_ns, 1});
      if (i == kLate)
        maker.trace.firings.push_back({at_ns + 100, 10, maker.String("token_gap /generate"), maker.String("late")});
    }
    for (uint32_t i = 0; i < 2; ++i) {
      maker.trace.requests[i].duration_ns = at_ns - kMs;
      maker.trace.requests[i].first_token_ns = 10 * kMs;
      maker.trace.requests[i].output_tokens = kIterations;
    }
  }
  uint32_t Add(uint32_t thread, int64_t begin_ns, double size, bool has_size) {
    const auto number = static_cast<uint32_t>(maker.trace.requests.size());
    const uint32_t request = maker.Request(10 + number, "/generate", begin_ns, 3'000 * kMs);
    model::RequestRow& row = maker.trace.requests[request];
    row.begin_thread = row.end_thread = thread;
    if (has_size) row.sizes = {{maker.String("prompt tokens"), size}};
    return request;
  }
  Judgement Judge() {
    trace = maker.Finish();
    REQUIRE(FindInconsistency(trace) == "");
    analyze::BlameIndex index;
    REQUIRE(analyze::BlameIndex::Make(trace, {}, &index).ok());
    analyze::Asked asked;
    REQUIRE(ChooseAsked(index, &asked).ok());
    Judgement judgement;
    REQUIRE(JudgeToken(trace, asked.token, &judgement).ok());
    return judgement;
  }

  TraceMaker maker;
  model::Trace trace;
  uint32_t late = kNone;
};

std::string TextOf(const Judgement& judgement) {
  return VerdictText(judgement.index, judgement.blame, judgement.verdict);
}

}  // namespace

TEST_CASE("a long prompt in the iteration of others is blamed by its request and size", "[prompts]") {
  Engine engine({});
  const Judgement judgement = engine.Judge();
  const std::string text = TextOf(judgement);
  INFO(text);
  REQUIRE(judgement.verdict.kind == VerdictKind::kCauses);
  const analyze::Cause& first = judgement.verdict.causes[0];
  CHECK(first.blame == Blame::kExecutorBusy);
  CHECK(first.by.request == engine.late);
  CHECK(std::string(first.advice.code) == "split_long_work");
  CHECK(judgement.blame.blame[Blame::kExecutorBusy] / kMs == 500);
  CHECK(judgement.blame.blame.Total() == judgement.blame.end_ns - judgement.blame.begin_ns);
  CHECK(text.find("while its iteration read a prompt in \"step\" on engine, behind request") != std::string::npos);
  CHECK(text.find("(/generate, 2500 prompt tokens, typical 50)") != std::string::npos);
}

TEST_CASE("a prompt of usual length explains its usual time and no more", "[prompts]") {
  Engine engine({.late_size = kUsualSize});
  const Judgement judgement = engine.Judge();
  INFO(TextOf(judgement));
  CHECK(judgement.blame.blame[Blame::kExecutorBusy] / kMs == 10);  // twice the usual 5 ms
  REQUIRE_FALSE(judgement.verdict.causes.empty());
  CHECK(judgement.verdict.causes[0].blame == Blame::kHostOncpuFramework);
}

TEST_CASE("an iteration without a prompt is not explained by one", "[prompts]") {
  Engine engine({.has_late_prompt = false});
  const Judgement judgement = engine.Judge();
  CHECK(judgement.blame.blame[Blame::kExecutorBusy] == 0);
  REQUIRE_FALSE(judgement.verdict.causes.empty());
  CHECK(judgement.verdict.causes[0].blame == Blame::kHostOncpuFramework);
}

TEST_CASE("of a prompt of unknown length it is not known whether it took so long", "[prompts]") {
  for (const uint32_t prompts_from : {0u, kIterations}) {  // others have prompts, too; or none has
    Engine engine({.has_sizes = false, .prompts_from = prompts_from});
    const Judgement judgement = engine.Judge();
    const std::string text = TextOf(judgement);
    INFO(text);
    CHECK(judgement.verdict.kind == VerdictKind::kUndetermined);
    CHECK(text.find("a prompt was read in the same iteration, and its length is not known") != std::string::npos);
    CHECK(text.find("Request::SetSize") != std::string::npos);
  }
}

TEST_CASE("without sizes, a prompt that took as long as others' prompts is blamed", "[prompts]") {
  Engine engine({.has_sizes = false, .late_ns = 5 * kMs});
  const Judgement judgement = engine.Judge();
  CHECK(judgement.blame.blame[Blame::kExecutorBusy] / kMs >= 4);
  for (const analyze::BlameSegment& segment : judgement.blame.segments) {
    if (segment.blame == Blame::kExecutorBusy) CHECK(segment.by.request == engine.late);
  }
}

TEST_CASE("a request is not called undetermined because of its own prompt", "[prompts]") {
  Engine engine({.has_sizes = false});
  engine.trace = engine.maker.Finish();
  // The late one asked about: its first token came at the end of its prompt's iteration.
  Judgement judgement;
  REQUIRE(analyze::BlameIndex::Make(engine.trace, {}, &judgement.index).ok());
  REQUIRE(FindBlame(judgement.index, engine.late, &judgement.blame).ok());
  CHECK(verdict::MayBePrompt(judgement.index.data()->index, judgement.blame) == verdict::PromptDoubt::kNone);
  REQUIRE(FindBlame(judgement.index, 0, &judgement.blame).ok());  // and one of its victims
  bool is_unsure = false;
  for (const analyze::BlameSegment& segment : judgement.blame.segments)
    is_unsure |= segment.batch != kNone && judgement.index.data()->index.prompts.OfBatch(segment.batch).is_unsure;
  CHECK(is_unsure);
}

TEST_CASE("of a prompt of known length it is said that too few others are known", "[prompts]") {
  Engine engine({.prompts_from = kIterations});  // the first of the engine
  const std::string text = TextOf(engine.Judge());
  INFO(text);
  CHECK(text.find("a prompt was read in the same iteration, and too few others are known") != std::string::npos);
}
