// SPDX-License-Identifier: Apache-2.0
//
// Time of requests that no thread recorded: stays in queues tell where it went.
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
  // From `begin_ms` after the request's begin on.
  void Queue(uint32_t request, int64_t begin_ms, int64_t ms) {
    const int64_t begin_ns = BeginNs(request) + begin_ms * kMs;
    maker_.trace.handoffs.push_back(
        {request, maker_.String("queue"), kNone, kNone, begin_ns, begin_ns + ms * kMs, kNone});
  }
  // The sentence about the slow request.
  std::string Judge() {
    trace_ = maker_.Finish();
    segments = SegmentsText(BlameOf(trace_, kSlow), kMs);
    REQUIRE(JudgeRequest(trace_, kSlow, nullptr, &judgement_).ok());
    REQUIRE(verdict().level != Baseline::Level::kNone);
    return Unwrapped(VerdictSentence(judgement_.index, judgement_.blame, verdict()));
  }
  const Verdict& verdict() const { return judgement_.verdict; }

  std::string segments;

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

}  // namespace pitot::test
