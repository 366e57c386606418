// SPDX-License-Identifier: Apache-2.0
//
// Batches that are long for the work of single members: prompts read in the iterations of others (continuous batching).
#include "analyze/blame/mixed_work.h"

#include <catch2/catch.hpp>
#include <cmath>
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
using Doubt = blame::MixedWork::Doubt;

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
  return VerdictText(judgement.index, judgement.blame, judgement.verdict, 1'000);
}

// Five requests get a token in each step of 10 ms. Every tenth step also reads 50 tokens of a new request, and one step
// reads 2,500: each takes 0.1 ms. Join says the work of each member.
struct GivenEngine {
  static constexpr uint32_t kDecoders = 5;
  struct Options {
    double late_work = 2'500;
    uint32_t late_prompts = 1;    // requests that bring as much
    int64_t late_ns = 250 * kMs;  // beyond the usual
    uint32_t prompts_every = 10;  // 0: none but the late one
    bool is_one_request = false;  // that joins several times
    bool is_late_work_known = true;
    uint32_t steps = kIterations, late = kLate;
    const char* unit = "";
    int64_t prefill_ns = 0;  // of the late step, in the context of the prompt's request alone
  };
  explicit GivenEngine(const Options& options) {
    const uint32_t thread = maker.Thread("engine");
    const uint32_t site = maker.Site(SiteKind::kScope, "step"), prefill = maker.Site(SiteKind::kScope, "prefill");
    maker.trace.window_end_ns = 100'000 * kMs;
    for (uint32_t i = 0; i < kDecoders; ++i) Add(thread, kMs);
    int64_t at_ns = kMs;
    for (uint32_t i = 0; i < options.steps; ++i) {
      const bool is_late = i == options.late,
                 has_prompt =
                     is_late || (options.prompts_every != 0 && i % options.prompts_every == options.prompts_every / 2);
      const int64_t begin_ns = at_ns, extra_ns = is_late ? options.late_ns : has_prompt ? 5 * kMs : 0;
      at_ns += 10 * kMs + extra_ns + (i % 7) * kMs / 100;
      const uint32_t batch = maker.Batch(1'000 + i, "slots", thread, begin_ns, at_ns - begin_ns);
      maker.trace.batches[batch].close = static_cast<uint8_t>(BatchClose::kStep);
      maker.trace.batches[batch].work_unit = maker.String(options.unit);
      for (uint32_t one = 0; one < kDecoders; ++one)
        Member(batch, one, begin_ns, is_late && one == 1 && !options.is_late_work_known ? 0 : 1);
      for (uint32_t n = 0; has_prompt && n < (is_late ? options.late_prompts : 1); ++n) {
        const bool is_same = is_late && options.is_one_request && !late.empty();
        const uint32_t request = is_same ? late[0] : Add(thread, begin_ns);
        maker.trace.requests[request].first_token_ns = at_ns - begin_ns;
        Member(batch, request, begin_ns, is_late ? options.late_work : 50);
        if (is_late && !is_same) late.push_back(request);
      }
      const int64_t prefill_ns = is_late ? options.prefill_ns : 0;
      if (prefill_ns != 0) maker.Event(thread, prefill, begin_ns, prefill_ns, {late[0], batch});
      maker.Event(thread, site, begin_ns + prefill_ns, at_ns - begin_ns - prefill_ns, {kNone, batch});
      for (uint32_t one = 0; one < kDecoders; ++one) maker.trace.tokens.push_back({one, thread, at_ns, 1});
      for (const uint32_t request : is_late ? late : std::vector<uint32_t>()) {
        first_token = static_cast<uint32_t>(maker.trace.tokens.size());
        maker.trace.tokens.push_back({request, thread, at_ns, 1});
      }
      if (is_late)
        maker.trace.firings.push_back({at_ns + 100, 10, maker.String("token_gap /generate"), maker.String("late")});
    }
    for (uint32_t i = 0; i < kDecoders; ++i) {
      maker.trace.requests[i].duration_ns = at_ns - kMs;
      maker.trace.requests[i].first_token_ns = 10 * kMs;
    }
    trace = maker.Finish();
    REQUIRE(FindInconsistency(trace) == "");
  }
  uint32_t Add(uint32_t thread, int64_t begin_ns) {
    const auto number = static_cast<uint32_t>(maker.trace.requests.size());
    const uint32_t request = maker.Request(10 + number, "/generate", begin_ns, 3'000 * kMs);
    maker.trace.requests[request].begin_thread = maker.trace.requests[request].end_thread = thread;
    return request;
  }
  void Member(uint32_t batch, uint32_t request, int64_t join_ns, double work) {
    maker.Member(batch, request, join_ns);
    maker.trace.members.back().work = work;
  }
  // Judges the late token of the decoder `one`.
  Judgement Judge(uint32_t one = 0) const { return JudgeRow(kDecoders * kLate + one); }
  Judgement JudgeRow(uint32_t token) const {
    Judgement judgement;
    const Status status = JudgeToken(trace, token, &judgement);
    INFO(status.message());
    REQUIRE(status.ok());
    CHECK(judgement.blame.blame.Total() == judgement.blame.end_ns - judgement.blame.begin_ns);
    return judgement;
  }

  TraceMaker maker;
  model::Trace trace;
  std::vector<uint32_t> late;  // requests whose prompts the late step reads
  uint32_t first_token = 0;    // of the last of these
};

}  // namespace

TEST_CASE("a long prompt in the iteration of others is blamed by its request and size", "[mixed_work]") {
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

TEST_CASE("a prompt of usual length explains its usual time and no more", "[mixed_work]") {
  Engine engine({.late_size = kUsualSize});
  const Judgement judgement = engine.Judge();
  INFO(TextOf(judgement));
  CHECK(judgement.blame.blame[Blame::kExecutorBusy] / kMs == 10);  // twice the usual 5 ms
  REQUIRE_FALSE(judgement.verdict.causes.empty());
  CHECK(judgement.verdict.causes[0].blame == Blame::kHostOncpuFramework);
}

TEST_CASE("an iteration without a prompt is not explained by one", "[mixed_work]") {
  Engine engine({.has_late_prompt = false});
  const Judgement judgement = engine.Judge();
  CHECK(judgement.blame.blame[Blame::kExecutorBusy] == 0);
  REQUIRE_FALSE(judgement.verdict.causes.empty());
  CHECK(judgement.verdict.causes[0].blame == Blame::kHostOncpuFramework);
}

TEST_CASE("a prompt of unknown length may or may not have taken so long", "[mixed_work]") {
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

TEST_CASE("without sizes, a prompt that took as long as others' prompts is blamed", "[mixed_work]") {
  Engine engine({.has_sizes = false, .late_ns = 5 * kMs});
  const Judgement judgement = engine.Judge();
  CHECK(judgement.blame.blame[Blame::kExecutorBusy] / kMs >= 4);
  for (const analyze::BlameSegment& segment : judgement.blame.segments) {
    if (segment.blame == Blame::kExecutorBusy) CHECK(segment.by.request == engine.late);
  }
}

TEST_CASE("a request is not called undetermined because of its own prompt", "[mixed_work]") {
  Engine engine({.has_sizes = false});
  engine.trace = engine.maker.Finish();
  // The late one asked about: its first token came at the end of its prompt's iteration.
  Judgement judgement;
  REQUIRE(analyze::BlameIndex::Make(engine.trace, {}, &judgement.index).ok());
  REQUIRE(FindBlame(judgement.index, engine.late, &judgement.blame).ok());
  CHECK(verdict::MayBeMixed(judgement.index.data()->index, judgement.blame) == Doubt::kNone);
  REQUIRE(FindBlame(judgement.index, 0, &judgement.blame).ok());  // and one of its victims
  bool is_unsure = false;
  for (const analyze::BlameSegment& segment : judgement.blame.segments)
    is_unsure |= segment.batch != kNone &&
                 judgement.index.data()->index.mixed_work.OfBatch(segment.batch).doubt == Doubt::kNoSize;
  CHECK(is_unsure);
}

TEST_CASE("a prompt of known length is compared with none if too few others are known", "[mixed_work]") {
  Engine engine({.prompts_from = kIterations});  // the first of the engine
  const std::string text = TextOf(engine.Judge());
  INFO(text);
  CHECK(text.find("a prompt was read in the same iteration, and too few others are known") != std::string::npos);
}

TEST_CASE("the member with the outlying work is blamed by its work for the tokens of all others", "[mixed_work]") {
  GivenEngine engine({});
  for (uint32_t one = 0; one < GivenEngine::kDecoders; ++one) {
    const Judgement judgement = engine.Judge(one);
    const std::string text = TextOf(judgement);
    INFO(text);
    REQUIRE(judgement.verdict.kind == VerdictKind::kCauses);
    const analyze::Cause& first = judgement.verdict.causes[0];
    CHECK(first.blame == Blame::kExecutorBusy);
    CHECK(first.by.request == engine.late[0]);
    CHECK(std::string(first.advice.code) == "limit_step_work");
    CHECK(first.confidence > 0.8);
    CHECK(judgement.blame.blame[Blame::kExecutorBusy] / kMs == 250);
    CHECK(judgement.blame.blame[Blame::kHostOncpuFramework] / kMs == 10);
    CHECK(text.find("while its iteration read a prompt in \"step\" on engine, behind request") != std::string::npos);
    CHECK(text.find("(/generate, 2,500 tokens in this step, typical 1)") != std::string::npos);
    CHECK(text.find("Divide such work (read a prompt in chunks)") != std::string::npos);
    const std::string json = VerdictJson(judgement.index, judgement.blame, judgement.verdict);
    CHECK(json.find("\"amount\": 2500,") != std::string::npos);
    CHECK(json.find("\"typical\": 1,") != std::string::npos);
    CHECK(json.find("\"unit\": \"tokens\"") != std::string::npos);
  }
}

TEST_CASE("prompts as long as prompts usually are, more of them than usual, are load and nobody's fault",
          "[mixed_work]") {
  // Each request brings a prompt. Those of six that came at once are read in one step.
  GivenEngine engine({.late_work = 50, .late_prompts = 6, .late_ns = 30 * kMs});
  const Judgement judgement = engine.Judge();
  const std::string text = TextOf(judgement);
  INFO(text);
  REQUIRE(judgement.verdict.kind == VerdictKind::kCauses);
  CHECK(judgement.verdict.causes[0].blame == Blame::kExecutorBusy);
  CHECK(judgement.verdict.root.kind == analyze::NodeKind::kLoad);
  CHECK(text.find("because of load: none of the 6 others in its batch took longer than usual") != std::string::npos);
}

TEST_CASE("the fault of a long prompt is what it has beyond a usual one", "[mixed_work]") {
  GivenEngine engine({});
  const Judgement judgement = engine.Judge();
  INFO(TextOf(judgement));
  const analyze::Root& root = judgement.verdict.root;
  CHECK(root.kind == analyze::NodeKind::kRequest);
  CHECK(root.by.request == engine.late[0]);
  CHECK(root.excess_ns / kMs == 245);  // 50 of its 2,500 tokens are usual
}

TEST_CASE("a member's own outlying work is its own more work, not a wait", "[mixed_work]") {
  GivenEngine engine({});
  const Judgement judgement = engine.JudgeRow(engine.first_token);
  INFO(TextOf(judgement));
  CHECK(judgement.blame.blame[Blame::kExecutorBusy] == 0);
  CHECK(judgement.blame.blame[Blame::kHostOncpuFramework] / kMs >= 250);
  CHECK(analyze::WorkOf(judgement.index, judgement.blame).size == 2'500);
}

TEST_CASE("two large members share the time by their work, and each waits for the other", "[mixed_work]") {
  GivenEngine engine({.late_work = 1'250, .late_prompts = 2});
  Judgement judgement = engine.Judge();
  int64_t by_each_ns[2] = {};
  for (const analyze::BlameSegment& segment : judgement.blame.segments) {
    for (int i = 0; i < 2; ++i) {
      if (segment.blame == Blame::kExecutorBusy && segment.by.request == engine.late[static_cast<size_t>(i)])
        by_each_ns[i] += segment.end_ns - segment.begin_ns;
    }
  }
  CHECK(by_each_ns[0] / kMs == 125);
  CHECK(by_each_ns[1] / kMs == 125);

  judgement = engine.JudgeRow(engine.first_token);
  CHECK(judgement.blame.blame[Blame::kExecutorBusy] / kMs == 125);
  for (const analyze::BlameSegment& segment : judgement.blame.segments) {
    if (segment.blame == Blame::kExecutorBusy) CHECK(segment.by.request == engine.late[0]);
  }
}

TEST_CASE("a step with usual work that is slow for another reason is not blamed on its prompt", "[mixed_work]") {
  GivenEngine engine({.late_work = 50, .late_ns = 500 * kMs});
  const Judgement judgement = engine.Judge();
  INFO(TextOf(judgement));
  CHECK(judgement.blame.blame[Blame::kExecutorBusy] / kMs == 10);  // twice the usual 5 ms
  REQUIRE_FALSE(judgement.verdict.causes.empty());
  CHECK(judgement.verdict.causes[0].blame == Blame::kHostOncpuFramework);
}

TEST_CASE("a step longer than its outlying work explains leaves the rest to its code", "[mixed_work]") {
  GivenEngine engine({.late_work = 500, .late_ns = 1'000 * kMs});
  const Judgement judgement = engine.Judge();
  INFO(TextOf(judgement));
  CHECK(judgement.blame.blame[Blame::kExecutorBusy] / kMs == 200);  // four times the 50 ms of as many tokens
  CHECK(judgement.blame.blame[Blame::kHostOncpuFramework] / kMs >= 800);
}

TEST_CASE("a batch with a member of unknown work is undetermined, and nobody is blamed", "[mixed_work]") {
  GivenEngine engine({.is_late_work_known = false});
  const Judgement judgement = engine.Judge();
  const std::string text = TextOf(judgement);
  INFO(text);
  CHECK(judgement.blame.blame[Blame::kExecutorBusy] == 0);
  CHECK(judgement.verdict.kind == VerdictKind::kUndetermined);
  CHECK(text.find("the work of a member of the same batch is not known") != std::string::npos);
  CHECK(text.find("Batch::Join") != std::string::npos);
}

TEST_CASE("the first large work of an executor is named with less confidence", "[mixed_work]") {
  GivenEngine engine({.prompts_every = 0});
  const Judgement judgement = engine.Judge();
  const std::string text = TextOf(judgement);
  INFO(text);
  REQUIRE(judgement.verdict.kind == VerdictKind::kCauses);
  CHECK(judgement.verdict.causes[0].by.request == engine.late[0]);
  CHECK(judgement.verdict.causes[0].confidence < 0.71);
  CHECK(text.find("the usual time of so much work is not known") != std::string::npos);
}

TEST_CASE("the first large work of an executor takes at most a usual step's time for as much", "[mixed_work]") {
  GivenEngine engine({.late_work = 50, .late_ns = 1'000 * kMs, .prompts_every = 0});
  const Judgement judgement = engine.Judge();
  CHECK(judgement.blame.blame[Blame::kExecutorBusy] / kMs == 100);  // 50 times the 2 ms of a decoder
}

TEST_CASE("work that took more than its usual time is blamed with less confidence", "[mixed_work]") {
  const auto judge = [](int64_t late_ns) {
    GivenEngine engine({.late_ns = late_ns});  // 2,500 tokens usually take 250 ms
    const Judgement judgement = engine.Judge();
    REQUIRE_FALSE(judgement.verdict.causes.empty());
    REQUIRE(judgement.verdict.causes[0].blame == Blame::kExecutorBusy);
    return judgement.verdict.causes[0].confidence;
  };
  CHECK(judge(600 * kMs) < 0.75 * judge(250 * kMs));
}

TEST_CASE("a prompt's time that is recorded in its context is not counted again", "[mixed_work]") {
  GivenEngine engine({.prefill_ns = 250 * kMs});
  const Judgement judgement = engine.Judge();
  CHECK(judgement.blame.blame[Blame::kExecutorBusy] == 250 * kMs);
}

TEST_CASE("a short scope of the large member alone, like its sampling, does not hide its work", "[mixed_work]") {
  GivenEngine engine({.prefill_ns = kMs});
  const Judgement judgement = engine.Judge();
  INFO(TextOf(judgement));
  REQUIRE_FALSE(judgement.verdict.causes.empty());
  CHECK(judgement.verdict.causes[0].blame == Blame::kExecutorBusy);
  CHECK(judgement.verdict.causes[0].by.request == engine.late[0]);
  CHECK(judgement.blame.blame[Blame::kExecutorBusy] > 240 * kMs);
}

TEST_CASE("too few steps have no usual time, and nobody is blamed", "[mixed_work]") {
  GivenEngine engine({.prompts_every = 0, .steps = 8, .late = 7});  // seven steps without the prompt
  analyze::BlameIndex index;
  REQUIRE(analyze::BlameIndex::Make(engine.trace, {}, &index).ok());
  const blame::MixedWork::Of late = index.data()->index.mixed_work.OfBatch(7);
  CHECK(late.parts.empty());
  CHECK(late.doubt == Doubt::kFewLike);
}

TEST_CASE("where every step has a prompt, a step of usual work has no doubt", "[mixed_work]") {
  GivenEngine engine({.late_work = 50, .late_ns = 500 * kMs, .prompts_every = 1});
  const Judgement judgement = engine.Judge();
  INFO(TextOf(judgement));
  CHECK(judgement.blame.blame[Blame::kExecutorBusy] == 0);
  CHECK(judgement.index.data()->index.mixed_work.OfBatch(kLate).doubt == Doubt::kNone);
  REQUIRE(judgement.verdict.kind == VerdictKind::kCauses);
  CHECK(judgement.verdict.causes[0].blame == Blame::kHostOncpuFramework);
}

TEST_CASE("the 64 largest of many large members are named", "[mixed_work]") {
  GivenEngine engine({.late_work = 125, .late_prompts = 80});
  const Judgement judgement = engine.Judge();
  CHECK(judgement.index.data()->index.mixed_work.OfBatch(kLate).parts.size() == 64);
  CHECK(judgement.blame.blame[Blame::kExecutorBusy] / kMs == 200);  // 64 of 80 parts of 250 ms
}

TEST_CASE("sequences of one request that join a step each are one member, and its work is their sum", "[mixed_work]") {
  GivenEngine engine({.late_work = 500, .late_prompts = 5, .is_one_request = true});
  const Judgement judgement = engine.Judge();
  const std::string text = TextOf(judgement);
  INFO(text);
  CHECK(judgement.index.data()->index.mixed_work.OfBatch(kLate).parts.size() == 1);
  CHECK(text.find("2,500 tokens in this step, typical 1") != std::string::npos);
}

TEST_CASE("work of any size in a dump leaves the shares finite", "[mixed_work]") {
  for (const double work : {1e308, 5e-324, -1.0}) {
    GivenEngine engine({.late_work = work, .late_prompts = 3, .is_one_request = true});
    const Judgement judgement = engine.JudgeRow(engine.first_token);
    for (uint32_t batch = 0; batch < kIterations; ++batch) {
      for (const blame::MixedWork::Part& part : judgement.index.data()->index.mixed_work.OfBatch(batch).parts)
        CHECK((part.share >= 0 && part.share <= 1));
    }
    CHECK(std::isfinite(analyze::WorkOf(judgement.index, judgement.blame).size));
  }
}

TEST_CASE("a batch without output tokens is long for a large image among small ones", "[mixed_work]") {
  TraceMaker maker;
  const uint32_t thread = maker.Thread("gpu 0"), site = maker.Site(SiteKind::kScope, "forward");
  maker.trace.window_end_ns = 100'000 * kMs;
  std::vector<uint32_t> requests;
  uint32_t large = kNone;
  for (uint32_t i = 0; i < 200; ++i) {
    const bool is_late = i == 150;
    // It gathers members for 20 ms.
    const int64_t begin_ns = i * 200 * kMs + kMs, joined_ns = begin_ns + 20 * kMs,
                  end_ns = joined_ns + 8 * kMs + (i % 5) * kMs / 10 + (is_late ? 60 * kMs : 0);
    const uint32_t batch = maker.Batch(1'000 + i, "resnet50", thread, begin_ns, end_ns - begin_ns);
    maker.trace.batches[batch].work_unit = maker.String("megapixels");
    maker.Event(thread, site, joined_ns, end_ns - joined_ns, {kNone, batch});
    for (uint32_t one = 0; one < 4; ++one) {
      const uint32_t request = maker.Request(10 + 4 * i + one, "/classify", begin_ns, end_ns - begin_ns);
      maker.trace.requests[request].begin_thread = maker.trace.requests[request].end_thread = thread;
      maker.Member(batch, request, joined_ns);
      maker.trace.members.back().work = is_late && one == 2 ? 30.5 : 1;
      if (is_late && one == 2) large = request;
      if (is_late && one == 0) requests.push_back(request);
    }
  }
  const model::Trace trace = maker.Finish();
  REQUIRE(FindInconsistency(trace) == "");
  Judgement judgement;
  REQUIRE(JudgeRequest(trace, requests[0], nullptr, &judgement).ok());
  const std::string text = TextOf(judgement);
  INFO(text);
  REQUIRE(judgement.verdict.kind == VerdictKind::kCauses);
  CHECK(judgement.verdict.causes[0].blame == Blame::kExecutorBusy);
  CHECK(judgement.verdict.causes[0].by.request == large);
  CHECK(judgement.blame.blame[Blame::kExecutorBusy] / kMs == 59);  // without the time for gathering
  CHECK(text.find("for a larger member of its batch in \"forward\" on gpu 0, behind request") != std::string::npos);
  CHECK(text.find("30.5 megapixels in this batch, typical 1") != std::string::npos);
  REQUIRE(JudgeRequest(trace, large, nullptr, &judgement).ok());
  CHECK(judgement.blame.blame[Blame::kExecutorBusy] == 0);
}

TEST_CASE("a large member that is left over as its batch thread's context is named", "[mixed_work]") {
  TraceMaker maker;
  const uint32_t thread = maker.Thread("gpu 0"), decode = maker.Site(SiteKind::kScope, "decode"),
                 forward = maker.Site(SiteKind::kScope, "forward");
  maker.trace.window_end_ns = 100'000 * kMs;
  uint32_t large = kNone;
  for (uint32_t i = 0; i < 200; ++i) {
    const bool is_late = i == 150;
    const int64_t begin_ns = i * 200 * kMs + kMs, forward_ns = begin_ns + 3 * kMs,
                  end_ns = forward_ns + 8 * kMs + (i % 5) * kMs / 10 + (is_late ? 60 * kMs : 0);
    const uint32_t batch = maker.Batch(1'000 + i, "resnet50", thread, begin_ns, end_ns - begin_ns);
    uint32_t last = kNone;  // begun, by the thread
    for (uint32_t one = 0; one < 3; ++one) {
      last = maker.Request(10 + 3 * i + one, "/classify", begin_ns, end_ns - begin_ns);
      maker.trace.requests[last].begin_thread = maker.trace.requests[last].end_thread = thread;
      maker.Member(batch, last, begin_ns);
      maker.trace.members.back().work = is_late && one == 2 ? 30 : 1;
      maker.Event(thread, decode, begin_ns + one * kMs, kMs, {last, batch});
    }
    maker.Event(thread, forward, forward_ns, end_ns - forward_ns, {last, batch});
    if (is_late) large = last;
  }
  const model::Trace trace = maker.Finish();
  REQUIRE(FindInconsistency(trace) == "");
  Judgement judgement;
  REQUIRE(JudgeRequest(trace, large - 1, nullptr, &judgement).ok());
  const std::string text = TextOf(judgement);
  INFO(text);
  REQUIRE(judgement.verdict.kind == VerdictKind::kCauses);
  CHECK(judgement.verdict.causes[0].blame == Blame::kExecutorBusy);
  CHECK(judgement.verdict.causes[0].by.request == large);
  CHECK(text.find("30 units of work in this batch, typical 1") != std::string::npos);
}

TEST_CASE("the usual time of a batch is that of batches with about as much work", "[mixed_work]") {
  TraceMaker maker;
  const uint32_t thread = maker.Thread("gpu 0"), site = maker.Site(SiteKind::kScope, "forward");
  maker.trace.window_end_ns = 100'000 * kMs;
  uint32_t victim = kNone;
  for (uint32_t i = 0; i < 100; ++i) {
    const bool is_late = i == 50;
    const double work = is_late || i % 3 == 0 ? 1 : 3;  // of each of five members
    const int64_t begin_ns = i * 200 * kMs + kMs;
    const int64_t length_ns = static_cast<int64_t>(work) * 10 * kMs + (is_late ? 60 * kMs : 0);
    const uint32_t batch = maker.Batch(1'000 + i, "resnet50", thread, begin_ns, length_ns);
    maker.Event(thread, site, begin_ns, length_ns, {kNone, batch});
    for (uint32_t one = 0; one < (is_late ? 6 : 5); ++one) {
      const uint32_t request = maker.Request(10 + 6 * i + one, "/classify", begin_ns, length_ns);
      maker.trace.requests[request].begin_thread = maker.trace.requests[request].end_thread = thread;
      maker.Member(batch, request, begin_ns);
      maker.trace.members.back().work = one == 5 ? 40 : work;
      if (is_late && one == 0) victim = request;
    }
  }
  const model::Trace trace = maker.Finish();
  Judgement judgement;
  REQUIRE(JudgeRequest(trace, victim, nullptr, &judgement).ok());
  CHECK(judgement.blame.blame[Blame::kExecutorBusy] / kMs == 60);  // beyond 10 ms, not beyond 30
}

TEST_CASE("in an engine that begins the next step early, a prompt is named in whichever step the time was recorded",
          "[mixed_work]") {
  // Each step ends after the code of the next one, or of the one after that. A prompt takes 5 ms more of code at its
  // step's begin: the steps before it wait for that, too.
  const uint32_t ahead = GENERATE(1u, 2u);
  CAPTURE(ahead);
  TraceMaker maker;
  const uint32_t thread = maker.Thread("engine"), site = maker.Site(SiteKind::kScope, "execute");
  maker.trace.window_end_ns = 100'000 * kMs;
  std::vector<uint32_t> decoders;
  for (uint32_t one = 0; one < 5; ++one) {
    decoders.push_back(maker.Request(10 + one, "/generate", kMs, 5'000 * kMs));
    maker.trace.requests.back().begin_thread = maker.trace.requests.back().end_thread = thread;
    maker.trace.requests.back().first_token_ns = 10 * kMs;
  }
  struct Step {
    int64_t begin_ns, code_ns;
    double work;
  };
  std::vector<Step> steps;
  int64_t at_ns = 2 * kMs;
  for (uint32_t i = 0; i < 200; ++i) {
    const bool is_late = i == 150, has_prompt = i % 6 == 3;
    steps.push_back({at_ns, (is_late ? 60 : has_prompt ? 6 : 1) * kMs, is_late ? 4'000. : has_prompt ? 50. : 0.});
    at_ns += steps.back().code_ns + kMs;
  }
  uint32_t late = kNone, usual = kNone, guilty = kNone;
  for (uint32_t i = 0; i + ahead < steps.size(); ++i) {
    const Step& step = steps[i];
    const int64_t end_ns = steps[i + ahead].begin_ns + steps[i + ahead].code_ns;
    const uint32_t batch = maker.Batch(1'000 + i, "vllm step", thread, step.begin_ns, end_ns - step.begin_ns);
    maker.trace.batches[batch].close = static_cast<uint8_t>(BatchClose::kStep);
    for (const uint32_t one : decoders) {
      maker.Member(batch, one, step.begin_ns);
      maker.trace.members.back().work = 1;
      maker.trace.tokens.push_back({one, thread, end_ns, 1});
    }
    if (step.work != 0) {
      const uint32_t prompt = maker.Request(100 + i, "/generate", step.begin_ns, end_ns - step.begin_ns);
      maker.trace.requests[prompt].begin_thread = maker.trace.requests[prompt].end_thread = thread;
      maker.Member(batch, prompt, step.begin_ns);
      maker.trace.members.back().work = step.work;
      if (i == 150) guilty = prompt;
    }
    maker.Event(thread, site, step.begin_ns, step.code_ns, {kNone, batch});
    if (i == 150 - ahead) late = static_cast<uint32_t>(maker.trace.tokens.size()) - 1;
    if (i == 99 - ahead) usual = static_cast<uint32_t>(maker.trace.tokens.size()) - 1;
  }
  const model::Trace trace = maker.Finish();
  REQUIRE(FindInconsistency(trace) == "");
  Judgement judgement;
  REQUIRE(JudgeToken(trace, late, &judgement).ok());
  INFO(VerdictText(judgement.index, judgement.blame, judgement.verdict));
  REQUIRE(!judgement.verdict.causes.empty());
  CHECK(judgement.verdict.causes[0].blame == Blame::kExecutorBusy);
  CHECK(judgement.verdict.causes[0].by.request == guilty);
  REQUIRE(JudgeToken(trace, usual, &judgement).ok());
  CHECK(judgement.blame.blame[Blame::kExecutorBusy] >= 3 * kMs);  // most of a prompt of usual length
}
