// SPDX-License-Identifier: Apache-2.0
//
// Time of requests that no thread recorded: stays in queues and spans tell where it went.
#include <catch2/catch.hpp>
#include <string>

#include "analyze/blame_of.h"
#include "analyze/unwrapped.h"
#include "pitot/analyze/judgement.h"
#include "serialize/sample_trace.h"

namespace pitot::test {

using namespace analyze;
using model::kNone;

namespace {

constexpr int64_t kMs = 1'000'000;
constexpr uint32_t kRequests = 80, kSlow = 60;

// Requests of a second each, one after the other, as spans of OpenTelemetry give them.
class Spans {
 public:
  explicit Spans(int64_t slow_ms, int64_t usual_ms = 450) {
    maker_.trace.window_end_ns = (kRequests + 2) * 1'000 * kMs;
    for (uint32_t i = 0; i < kRequests; ++i)
      maker_.Request(i + 1, "/generate", BeginNs(i), (i == kSlow ? slow_ms : usual_ms + i % 7) * kMs);
  }
  model::RequestRow& Row(uint32_t request) { return maker_.trace.requests[request]; }
  uint32_t Thread() { return maker_.Thread("loop"); }
  // From `begin_ms` after the request's begin on.
  void Queue(uint32_t request, int64_t begin_ms, int64_t ms) {
    const int64_t begin_ns = BeginNs(request) + begin_ms * kMs;
    maker_.trace.handoffs.push_back(
        {request, maker_.String("queue"), kNone, kNone, begin_ns, begin_ns + ms * kMs, kNone});
  }
  void Async(uint32_t request, const char* name, int64_t begin_ms, int64_t ms) {
    const uint32_t site = maker_.Site(SiteKind::kAsyncBegin, name);
    maker_.trace.asyncs.push_back({site, request, kNone, kNone, BeginNs(request) + begin_ms * kMs, ms * kMs});
  }
  void Stage(uint32_t request, const char* name, int64_t begin_ms, int64_t ms) {
    Row(request).stages.push_back({maker_.String(name), BeginNs(request) + begin_ms * kMs, ms * kMs});
  }
  // The sentence about the slow request.
  std::string Judge() {
    trace_ = maker_.Finish();
    segments = SegmentsText(BlameOf(trace_, kSlow), kMs);
    REQUIRE(JudgeRequest(trace_, kSlow, nullptr, &judgement_).ok());
    REQUIRE(verdict().level != Baseline::Level::kNone);
    text = Unwrapped(VerdictText(judgement_.index, judgement_.blame, verdict()));
    return Unwrapped(VerdictSentence(judgement_.index, judgement_.blame, verdict()));
  }
  std::string Evidence(const Cause& cause) const { return EvidenceText(judgement_.index, judgement_.blame, cause); }
  const Verdict& verdict() const { return judgement_.verdict; }

  std::string segments, text;

 private:
  static int64_t BeginNs(uint32_t request) { return (request + 1) * 1'000 * kMs; }

  TraceMaker maker_;
  model::Trace trace_;
  Judgement judgement_;
};

}  // namespace

TEST_CASE("a stay in a queue explains a request on no known thread", "[why]") {
  Spans spans(1'350);
  for (uint32_t i = 0; i < kRequests; ++i) spans.Queue(i, 0, i == kSlow ? 900 : 2 + i % 3);

  const std::string sentence = spans.Judge();

  CHECK(spans.segments == "queue_wait_others 900; untraced_or_unexplained 450");
  CHECK(spans.verdict().kind == VerdictKind::kCauses);
  REQUIRE(!spans.verdict().causes.empty());
  CHECK(spans.verdict().causes[0].blame == Blame::kQueueWaitOthers);
  CHECK_THAT(sentence, Catch::Contains("it waited 900.0 ms for its turn in queue \"queue\""));
}

TEST_CASE("each stay in a queue has its own time, and the rest of a request on no known thread is not recorded",
          "[why]") {
  Spans spans(1'350);
  spans.Queue(kSlow, 100, 300);
  spans.Queue(kSlow, 600, 50);

  spans.Judge();

  CHECK(spans.segments ==
        "untraced_or_unexplained 100; queue_wait_others 300; untraced_or_unexplained 200; queue_wait_others 50; "
        "untraced_or_unexplained 700");
}

TEST_CASE("an async span that took longer than usual is the place of time that no thread recorded", "[why]") {
  for (const bool has_thread : {false, true}) {
    Spans spans(541);
    const uint32_t thread = has_thread ? spans.Thread() : kNone;
    for (uint32_t i = 0; i < kRequests; ++i) {
      spans.Row(i).begin_thread = spans.Row(i).end_thread = thread;
      spans.Async(i, "handle", 0, i == kSlow ? 541 : 450);
      spans.Async(i, "db query", 10, i == kSlow ? 100 : 9);
      spans.Async(i, "render", 200, 150);
    }

    const std::string sentence = spans.Judge();

    CHECK(spans.verdict().kind == VerdictKind::kCauses);
    CHECK_THAT(sentence, Catch::Contains("100.0 ms of it in span \"db query\", usually 9.00 ms."));
    REQUIRE(!spans.verdict().causes.empty());
    const Cause& cause = spans.verdict().causes[0];
    CHECK(cause.blame == Blame::kUntraced);
    CHECK_THAT(spans.Evidence(cause), Catch::Contains("100.0 ms of it in span \"db query\", usually 9.00 ms"));
    CHECK(std::string(cause.advice.code) == "look_at_span");
    CHECK(cause.confidence <= 0.7);  // a place, and no reason
    CHECK(spans.verdict().root.confidence <= cause.confidence / 2);
    CHECK_THAT(spans.text, Catch::Contains("only a span shows where it was"));
  }
}

TEST_CASE("an async span with nearly all of the time is said alone", "[why]") {
  Spans spans(5'010, 30);
  for (uint32_t i = 0; i < kRequests; ++i) spans.Async(i, "db query", 5, i == kSlow ? 5'000 : 9);

  CHECK_THAT(spans.Judge(), Catch::Contains("it spent 5.00 s in span \"db query\", usually 9.00 ms."));
}

TEST_CASE("a span as long as its request is a place, and no cause", "[why]") {
  for (const bool has_parts : {false, true}) {
    for (const bool is_stage : {false, true}) {
      CAPTURE(has_parts, is_stage);
      Spans spans(900);
      for (uint32_t i = 0; i < kRequests; ++i) {
        const int64_t ms = i == kSlow ? 898 : 450;
        if (is_stage)
          spans.Stage(i, "handle", 0, ms);
        else
          spans.Async(i, "handle", 0, ms);
        if (has_parts) spans.Async(i, "db query", 10, 9);
      }

      const std::string sentence = spans.Judge();

      CHECK(spans.verdict().kind == VerdictKind::kUndetermined);
      for (const Cause& cause : spans.verdict().causes) CHECK(cause.confidence == 0);
      CHECK_THAT(sentence,
                 Catch::Contains(std::string("of it in ") + (is_stage ? "stage" : "span") + " \"handle\", usually ") &&
                     Catch::Contains("which is as long as the request"));
    }
  }
}

TEST_CASE("a span as long as its request is the cause if usual requests have no such span", "[why]") {
  Spans spans(900);
  spans.Async(kSlow, "retry", 0, 900);

  CHECK_THAT(spans.Judge(), Catch::Contains("in span \"retry\", usually none"));
  CHECK(spans.verdict().kind == VerdictKind::kCauses);
}

TEST_CASE("a part of a span as long as the request is named before it", "[why]") {
  Spans spans(1'000);
  for (uint32_t i = 0; i < kRequests; ++i) {
    spans.Async(i, "handle", 0, i == kSlow ? 1'000 : 450);  // 316 ms longer by itself
    spans.Async(i, "db query", 10, i == kSlow ? 290 : 9);   // 281 ms longer
    spans.Async(i, "render", 300, i == kSlow ? 100 : 150);
  }

  CHECK_THAT(spans.Judge(), Catch::Contains("290.0 ms of it in span \"db query\", usually 9.00 ms"));
  CHECK(spans.verdict().kind == VerdictKind::kCauses);
}

TEST_CASE("a stage is the place of a request on no known thread", "[why]") {
  Spans spans(850);
  for (uint32_t i = 0; i < kRequests; ++i) {
    spans.Stage(i, "prefill", 0, i == kSlow ? 430 : 30);
    spans.Stage(i, "decode", i == kSlow ? 430 : 30, 420);
  }

  const std::string sentence = spans.Judge();

  CHECK(spans.verdict().kind == VerdictKind::kCauses);
  CHECK_THAT(sentence, Catch::Contains("430.0 ms of it in stage \"prefill\", usually 30.0 ms"));
}

TEST_CASE("spans that took as long as usual explain nothing", "[why]") {
  Spans spans(1'350);
  for (uint32_t i = 0; i < kRequests; ++i) spans.Async(i, "db query", 10, i == kSlow ? 20 : 9);

  const std::string sentence = spans.Judge();

  CHECK(spans.verdict().kind == VerdictKind::kUndetermined);
  CHECK_THAT(sentence, !Catch::Contains("db query"));
}

}  // namespace pitot::test
