// SPDX-License-Identifier: Apache-2.0
//
// Requests that are usual for their size, and unusual for their route.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "analyze/unwrapped.h"
#include "pitot/analyze/judgement.h"
#include "pitot/analyze/tokens.h"
#include "pitot/analyze/verdict.h"
#include "pitot/wait.h"
#include "serialize/sample_trace.h"

namespace pitot::test {

using analyze::Baseline;
using analyze::Blame;
using analyze::Judgement;
using analyze::NodeKind;
using analyze::Verdict;
using analyze::VerdictKind;
using analyze::VerdictNode;
using model::kNone;

namespace {

constexpr int64_t kUs = 1'000, kMs = 1'000 * kUs;
constexpr double kSmall = 9'216, kLarge = 1'960'000;

// A server with one request every 100 ms. Its thread decodes, and may wait for a lock after that.
class SizedServer {
 public:
  SizedServer()
      : thread_(maker_.Thread("http")),
        decode_(maker_.Site(SiteKind::kScope, "decode")),
        forward_(maker_.Site(SiteKind::kScope, "forward")),
        wait_(maker_.WaitSite()) {}

  // `size` 0: it has none. Decoding takes `decode_us` and up to 5 % more or less.
  uint32_t Add(double size, int64_t decode_us, int64_t locked_us = 0) {
    const int64_t decode_ns = decode_us * (kUs + (count_ * 37 % 11 - 5) * 10), begin_ns = 100 * kMs * count_;
    return AddExactly(size, begin_ns, decode_ns, locked_us * kUs);
  }
  // One that decodes for exactly this long.
  uint32_t AddLast(double size, int64_t decode_us, int64_t locked_us = 0) {
    return AddExactly(size, 100 * kMs * count_, decode_us * kUs, locked_us * kUs);
  }
  // One of each `every` requests is large.
  void AddMany(int count, int every, int64_t small_us, int64_t large_us) {
    for (int i = 0; i < count; ++i) Add(i % every == 1 ? kLarge : kSmall, i % every == 1 ? large_us : small_us);
  }
  Judgement Judge(uint32_t request) {
    Finish();
    Judgement judgement;
    REQUIRE(JudgeRequest(trace, request, nullptr, &judgement).ok());
    return judgement;
  }
  Judgement JudgeFirstToken(uint32_t request) {
    Finish();
    Judgement judgement;
    const Status status = JudgeToken(trace, analyze::TokenOf(trace, request, 1), &judgement);
    INFO(status.message());
    REQUIRE(status.ok());
    return judgement;
  }

  model::Trace trace;

 private:
  uint32_t AddExactly(double size, int64_t begin_ns, int64_t decode_ns, int64_t locked_ns) {
    const int64_t rest_ns = 5 * kMs, end_ns = begin_ns + decode_ns + locked_ns + rest_ns;
    const uint32_t row =
        maker_.Request(0x1000 + static_cast<uint64_t>(count_), "/classify", begin_ns, end_ns - begin_ns);
    ++count_;
    model::RequestRow& request = maker_.trace.requests[row];
    request.outcome = Outcome::kOk;
    request.begin_thread = request.end_thread = thread_;
    if (size != 0) request.sizes = {{maker_.String("pixels"), size}};
    for (auto left = static_cast<uint64_t>(size); left != 0; left /= 2) ++request.size_bucket;
    request.first_token_ns = decode_ns + locked_ns;
    request.output_tokens = 1;
    maker_.trace.tokens.push_back({row, thread_, begin_ns + decode_ns + locked_ns, 1});
    maker_.Event(thread_, decode_, begin_ns, decode_ns, {row, kNone});
    if (locked_ns != 0)
      maker_.Event(thread_, wait_, begin_ns + decode_ns, locked_ns, {row, kNone},
                   {static_cast<uint64_t>(WaitKind::kLock), maker_.String("cache"), uint64_t{0}, uint64_t{0}});
    maker_.Event(thread_, forward_, end_ns - rest_ns, rest_ns, {row, kNone});
    return row;
  }
  void Finish() {
    maker_.trace.window_end_ns = 100 * kMs * (count_ + 1);
    trace = maker_.Finish();
    REQUIRE(FindInconsistency(trace) == "");
  }

  TraceMaker maker_;
  const uint32_t thread_, decode_, forward_, wait_;
  int64_t count_ = 0;
};

std::string Sentence(const Judgement& judgement) {
  return VerdictSentence(judgement.index, judgement.blame, judgement.verdict);
}
bool Has(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

// The victim's children add up to its excess.
void CheckSum(const Verdict& verdict) {
  REQUIRE(!verdict.tree.empty());
  int64_t sum_ns = 0;
  for (const VerdictNode& node : verdict.tree) sum_ns += node.parent == 0 ? node.excess_ns : 0;
  CHECK(sum_ns == verdict.tree[0].excess_ns);
  int64_t causes_ns = verdict.common_ns + verdict.rest_ns;
  for (const auto& cause : verdict.causes) causes_ns += cause.excess_ns;
  CHECK(causes_ns == verdict.latency_ns - verdict.typical_ns);
}

}  // namespace

TEST_CASE("a request as slow as its size is usual, and slower than its route, is more work", "[by_size]") {
  SizedServer server;
  server.AddMany(1200, 16, 20'000, 38'000);
  const uint32_t request = server.AddLast(kLarge, 38'000);

  const Judgement judgement = server.Judge(request);

  const Verdict& verdict = judgement.verdict;
  REQUIRE(verdict.level == Baseline::Level::kCell);
  CHECK(verdict.kind == VerdictKind::kMoreWork);
  CHECK(verdict.more_of == "size");
  CHECK(verdict.more_factor == Approx(kLarge / kSmall));
  CHECK(verdict.typical_ns == Approx(43 * kMs).epsilon(0.01));
  CHECK(verdict.of_route.requests == 1201);
  CHECK(verdict.of_route.usual_ns == 25 * kMs);
  CHECK(verdict.of_route.percentile > 0.9);
  CHECK(verdict.of_route.more_ns == verdict.typical_ns - 25 * kMs);
  CHECK(verdict.root.kind == NodeKind::kMoreWork);
  CHECK(verdict.root.share == Approx(1).epsilon(0.05));
  CHECK(verdict.root.confidence > 0.9);
  CHECK(verdict.tree[0].excess_ns == 18 * kMs);
  CheckSum(verdict);
  CHECK(
      Sentence(judgement) ==
      "Request 00000000000014b0 (/classify) took 43.0 ms, usual for its size (pixels 1,960,000; requests of this route "
      "usually have 9,216 and take 25.0 ms).");
  const std::string text = Unwrapped(VerdictText(judgement.index, judgement.blame, verdict));
  CHECK(Has(text, "why usual for its size: pixels 1,960,000; requests of this route usually have 9,216"));
  const std::string json = VerdictJson(judgement.index, judgement.blame, verdict);
  CHECK(Has(json, "\"verdict\": \"more_work\""));
  CHECK(
      Has(json, "\"size_of_route\": {\n    \"name\": \"pixels\",\n    \"size\": 1960000,\n    \"usual_size\": 9216,"));
  CHECK(Has(json, "\"kind\": \"more_work\""));
}

TEST_CASE("a small request is usual for its route, and so is a large one where every third is", "[by_size]") {
  SizedServer server;
  server.AddMany(1200, 16, 20'000, 38'000);
  CHECK(server.Judge(server.AddLast(kSmall, 20'000)).verdict.kind == VerdictKind::kNotUnusual);

  SizedServer third;
  third.AddMany(1200, 3, 20'000, 38'000);
  CHECK(third.Judge(third.AddLast(kLarge, 38'000)).verdict.kind == VerdictKind::kNotUnusual);
}

TEST_CASE("a size that usually takes no longer is not why", "[by_size]") {
  SizedServer server;
  server.AddMany(1200, 16, 20'000, 20'000);
  const Judgement judgement = server.Judge(server.AddLast(kLarge, 38'000));

  CHECK(judgement.verdict.kind == VerdictKind::kCauses);
  CHECK(judgement.verdict.of_route.requests == 0);
  REQUIRE(judgement.verdict.causes.size() == 1);
  CHECK(judgement.verdict.causes[0].blame == Blame::kHostOncpuPre);
  CheckSum(judgement.verdict);
}

TEST_CASE("time beyond its size is judged among its like, and the larger of the two is the root", "[by_size]") {
  SizedServer server;
  server.AddMany(1200, 16, 20'000, 38'000);
  const Judgement little = server.Judge(server.AddLast(kLarge, 38'000, 10'000));

  CHECK(little.verdict.kind == VerdictKind::kCauses);
  REQUIRE(little.verdict.causes.size() == 1);
  CHECK(little.verdict.causes[0].blame == Blame::kHostLock);
  CHECK(little.verdict.root.kind == NodeKind::kMoreWork);
  CheckSum(little.verdict);
  INFO(Sentence(little));
  CHECK(Has(Sentence(little),
            " took 53.0 ms: 42.9 ms are usual for its size (pixels 1,960,000; requests of this route "
            "usually have 9,216 and take 25.0 ms), and it waited 10.0 ms for lock \"cache\""));

  SizedServer late;
  late.AddMany(1200, 16, 20'000, 38'000);
  const Judgement much = late.Judge(late.AddLast(kLarge, 38'000, 30'000));
  CHECK(much.verdict.root.blame == Blame::kHostLock);
  CHECK(much.verdict.of_route.more_ns > 17 * kMs);
  CheckSum(much.verdict);
  INFO(Sentence(much));
  CHECK(Has(Sentence(much), " took 73.0 ms instead of 42.9 ms: it waited 30.0 ms for lock \"cache\""));
  CHECK(Has(Unwrapped(VerdictText(much.index, much.blame, much.verdict)), "for its size: pixels 1,960,000"));
}

TEST_CASE("one of a few large requests is more work as far as its like show it", "[by_size]") {
  SizedServer server;
  server.AddMany(1000, 50, 20'000, 38'000);
  const Judgement slow_size = server.Judge(server.AddLast(kLarge, 38'000));
  REQUIRE(slow_size.verdict.level == Baseline::Level::kRoute);
  CHECK(slow_size.verdict.kind == VerdictKind::kMoreWork);
  CHECK(slow_size.verdict.more_of == "size");
  CHECK(slow_size.verdict.more_factor == Approx(kLarge / kSmall));
  CHECK(slow_size.verdict.root.kind == NodeKind::kMoreWork);
  CHECK(slow_size.verdict.root.confidence > 0.9);
  CheckSum(slow_size.verdict);

  SizedServer alike;
  alike.AddMany(1000, 50, 20'000, 20'000);
  const Judgement slow_code = alike.Judge(alike.AddLast(kLarge, 38'000));
  REQUIRE(slow_code.verdict.level == Baseline::Level::kRoute);
  CHECK(slow_code.verdict.kind == VerdictKind::kCauses);
  CHECK(slow_code.verdict.more_of.empty());
}

TEST_CASE("the only large request is more work, at half the confidence", "[by_size]") {
  SizedServer server;
  for (int i = 0; i < 1000; ++i) server.Add(kSmall, 20'000);
  const Judgement judgement = server.Judge(server.AddLast(kLarge, 38'000));
  CHECK(judgement.verdict.kind == VerdictKind::kMoreWork);
  CHECK(judgement.verdict.root.kind == NodeKind::kMoreWork);
  CHECK(judgement.verdict.root.confidence == Approx(0.5).epsilon(0.05));
  CheckSum(judgement.verdict);
}

TEST_CASE("requests without a size, and few of a route, say nothing about a size", "[by_size]") {
  SizedServer server;
  for (int i = 0; i < 1200; ++i) server.Add(0, i % 16 == 1 ? 38'000 : 20'000);
  const Judgement judgement = server.Judge(server.AddLast(0, 38'000));
  CHECK(judgement.verdict.kind != VerdictKind::kMoreWork);
  CHECK(judgement.verdict.of_route.requests == 0);

  SizedServer few;
  few.AddMany(50, 4, 20'000, 38'000);
  const Judgement unknown = few.Judge(few.AddLast(kLarge, 38'000));
  CHECK(unknown.verdict.of_route.requests == 0);
}

TEST_CASE("a first token is more work as far as those of its size show it", "[by_size]") {
  SizedServer server;
  server.AddMany(1000, 50, 20'000, 38'000);
  const Judgement judgement = server.JudgeFirstToken(server.AddLast(kLarge, 38'000));
  CHECK(judgement.verdict.kind == VerdictKind::kMoreWork);
  CHECK(judgement.verdict.root.kind == NodeKind::kMoreWork);
  CHECK(judgement.verdict.root.confidence > 0.9);
  CHECK(Has(Sentence(judgement),
            " came after 38.0 ms instead of 20.0 ms: more work, not slower: 213 times the usual size."));
  CheckSum(judgement.verdict);

  SizedServer alike;
  alike.AddMany(1000, 50, 20'000, 20'000);
  CHECK(alike.JudgeFirstToken(alike.AddLast(kLarge, 38'000)).verdict.kind == VerdictKind::kCauses);
}

}  // namespace pitot::test
