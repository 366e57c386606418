// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <thread>

#include "trigger/fakes.h"
#include "trigger/make.h"

using fakes::Advance;
using fakes::Request;
using pitot::LatencyTriggerOptions;
using pitot::Outcome;
using pitot::trigger::MakeLatency;

namespace {

// Lognormal latencies around 20 ms.
std::vector<double> LatenciesMs(size_t count, double scale = 20, uint32_t seed = 1) {
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> distribution(0, 0.3);
  std::vector<double> latencies(count);
  for (double& latency : latencies) latency = scale * distribution(random);
  return latencies;
}

double ExactQuantile(std::vector<double> values, double quantile) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(quantile * static_cast<double>(values.size() - 1) + 0.5)];
}

// The latency at which the trigger fires on the route, found by requests without effect on the quantile.
double FindThresholdMs(pitot::Trigger& trigger, uint32_t size_bucket = 0, const char* route = "/classify",
                       uint32_t route_index = 1) {
  double low = 0.001, high = 1e6;
  for (int i = 0; i < 80; ++i) {
    const double middle = (low + high) / 2;
    fakes::Sink sink;
    trigger.OnFinish(Request(middle, route, route_index, size_bucket, Outcome::kCancelled), sink);
    (sink.fired.empty() ? low : high) = middle;
  }
  return high;
}

}  // namespace

TEST_CASE("a request above the fixed threshold fires with its numbers", "[trigger]") {
  fakes::Sink sink;
  auto trigger =
      MakeLatency({.route = "/classify", .above_ms = 40, .pre_window_ms = 11, .post_window_ms = 12}, fakes::Clock);

  trigger->OnFinish(Request(40), sink);
  CHECK(sink.fired.empty());
  trigger->OnFinish(Request(41.3), sink);

  REQUIRE(sink.fired.size() == 1);
  CHECK(sink.fired[0].request == 7);
  CHECK(sink.fired[0].cause == "latency /classify");
  CHECK(sink.fired[0].detail == "41.3 ms, above 40 ms");
  CHECK(sink.fired[0].pre_window_ms == 11);
  CHECK(sink.fired[0].post_window_ms == 12);
}

TEST_CASE("a latency trigger leaves other routes alone", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeLatency({.route = "/classify", .above_ms = 40}, fakes::Clock);

  trigger->OnFinish(Request(500, "/segment", 2), sink);

  CHECK(sink.fired.empty());
  CHECK(trigger->LateAfterNs("/classify") == 40000000);
  CHECK(trigger->LateAfterNs("/segment") == 0);
}

TEST_CASE("the route's name is copied when the trigger is made", "[trigger]") {
  fakes::Sink sink;
  char route[] = "/classify";
  auto trigger = MakeLatency({.route = route, .above_ms = 40}, fakes::Clock);
  route[1] = 'x';

  trigger->OnFinish(Request(500), sink);

  CHECK(sink.fired.size() == 1);
}

TEST_CASE("a trigger without a route watches every route", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeLatency({.above_ms = 40}, fakes::Clock);

  trigger->OnFinish(Request(50, "/a", 1), sink);
  trigger->OnFinish(Request(50, "/b", 2), sink);

  REQUIRE(sink.fired.size() == 2);
  CHECK(sink.fired[1].cause == "latency /b");
  CHECK(trigger->LateAfterNs("/any") == 40000000);
}

TEST_CASE("a route stays quiet during its cool-down and others do not", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeLatency({.above_ms = 40, .cool_down_ms = 1000}, fakes::Clock);

  trigger->OnFinish(Request(50, "/a", 1), sink);
  Advance(999);
  trigger->OnFinish(Request(50, "/a", 1), sink);
  CHECK(sink.fired.size() == 1);
  trigger->OnFinish(Request(50, "/b", 2), sink);
  CHECK(sink.fired.size() == 2);
  Advance(1);
  trigger->OnFinish(Request(50, "/a", 1), sink);
  CHECK(sink.fired.size() == 3);
}

TEST_CASE("k of the last n requests of a route must be above the threshold", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeLatency({.above_ms = 40, .k = 3, .n = 5, .cool_down_ms = 0}, fakes::Clock);

  for (double latency : {50, 10, 50, 10, 10, 10, 50, 50}) trigger->OnFinish(Request(latency), sink);
  CHECK(sink.fired.empty());
  trigger->OnFinish(Request(50, "/other", 2), sink);
  CHECK(sink.fired.empty());
  trigger->OnFinish(Request(50), sink);

  REQUIRE(sink.fired.size() == 1);
  CHECK(sink.fired[0].detail == "50.0 ms, above 40 ms, 3 of the last 5 requests were");
  trigger->OnFinish(Request(10), sink);  // a request fires only if it is above itself
  CHECK(sink.fired.size() == 1);
}

TEST_CASE("k and n can be 64", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeLatency({.above_ms = 40, .k = 64, .n = 64}, fakes::Clock);

  for (int i = 0; i < 63; ++i) trigger->OnFinish(Request(50), sink);
  CHECK(sink.fired.empty());
  trigger->OnFinish(Request(50), sink);

  CHECK(sink.fired.size() == 1);
}

TEST_CASE("a quantile decides nothing before its warm-up", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeLatency({.or_above_quantile = 0.99, .warm_up_requests = 200}, fakes::Clock);

  for (int i = 0; i < 199; ++i) trigger->OnFinish(Request(20), sink);
  trigger->OnFinish(Request(5000, "/classify", 1, 0, Outcome::kFailed), sink);
  CHECK(sink.fired.empty());
  trigger->OnFinish(Request(20), sink);  // the 200th
  trigger->OnFinish(Request(5000), sink);

  REQUIRE(sink.fired.size() == 1);
  CHECK(sink.fired[0].detail == "5000.0 ms, above p99 = 20.0 ms of 200 requests of its route");
}

TEST_CASE("a quantile decides nothing while it is only the maximum", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeLatency({.or_above_quantile = 0.999, .warm_up_requests = 200}, fakes::Clock);

  for (int i = 0; i < 998; ++i) trigger->OnFinish(Request(20), sink);
  trigger->OnFinish(Request(5000), sink);
  CHECK(sink.fired.empty());
  trigger->OnFinish(Request(20), sink);  // the 1,000th
  trigger->OnFinish(Request(6000), sink);

  CHECK(sink.fired.size() == 1);
}

TEST_CASE("a quantile is within 3 % of the exact one on lognormal latencies", "[trigger]") {
  for (const double quantile : {0.5, 0.9, 0.99, 0.999}) {
    fakes::Sink sink;
    auto trigger = MakeLatency({.or_above_quantile = quantile, .memory = 1000000, .cool_down_ms = 0}, fakes::Clock);
    const std::vector<double> latencies = LatenciesMs(64 * 1500);
    for (double latency : latencies) trigger->OnFinish(Request(latency), sink);

    const double exact = ExactQuantile(latencies, quantile);

    CAPTURE(quantile);
    CHECK(FindThresholdMs(*trigger) == Approx(exact).epsilon(0.03));
  }
}

TEST_CASE("requests of equal latency do not fire on one another", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeLatency({.or_above_quantile = 0.5, .cool_down_ms = 0}, fakes::Clock);

  for (int i = 0; i < 1000; ++i) trigger->OnFinish(Request(20), sink);

  CHECK(sink.fired.empty());
}

TEST_CASE("a quantile follows a drift once older counts are halved away", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeLatency({.or_above_quantile = 0.9, .memory = 1000, .cool_down_ms = 0}, fakes::Clock);
  for (double latency : LatenciesMs(10000, 20)) trigger->OnFinish(Request(latency), sink);
  const double before = FindThresholdMs(*trigger);

  const std::vector<double> later = LatenciesMs(10000, 60, 2);
  for (double latency : later) trigger->OnFinish(Request(latency), sink);

  CHECK(before == Approx(ExactQuantile(LatenciesMs(10000, 20), 0.9)).epsilon(0.06));
  CHECK(FindThresholdMs(*trigger) == Approx(ExactQuantile(later, 0.9)).epsilon(0.06));
}

TEST_CASE("only requests that ended ok teach the quantile", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeLatency({.or_above_quantile = 0.9, .cool_down_ms = 0}, fakes::Clock);
  for (int i = 0; i < 640; ++i) trigger->OnFinish(Request(20), sink);

  for (Outcome outcome :
       {Outcome::kFailed, Outcome::kCancelled, Outcome::kTimedOut, Outcome::kShed, Outcome::kAbandoned}) {
    for (int i = 0; i < 6400; ++i) trigger->OnFinish(Request(1, "/classify", 1, 0, outcome), sink);
  }

  CHECK(FindThresholdMs(*trigger) == Approx(20).epsilon(0.03));
}

TEST_CASE("a slow request that failed fires as well", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeLatency({.above_ms = 40}, fakes::Clock);

  trigger->OnFinish(Request(50, "/classify", 1, 0, Outcome::kFailed), sink);

  CHECK(sink.fired.size() == 1);
}

TEST_CASE("each size bucket has a quantile of its own", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeLatency({.or_above_quantile = 0.9}, fakes::Clock);
  for (int i = 0; i < 256; ++i) {
    trigger->OnFinish(Request(10, "/classify", 1, 5), sink);
    trigger->OnFinish(Request(100, "/classify", 1, 9), sink);
  }

  trigger->OnFinish(Request(100, "/classify", 1, 9), sink);
  CHECK(sink.fired.empty());
  trigger->OnFinish(Request(50, "/classify", 1, 5), sink);

  REQUIRE(sink.fired.size() == 1);
  CHECK(sink.fired[0].detail == "50.0 ms, above p90 = 10.0 ms of 256 requests of its size");
}

TEST_CASE("further sizes of a route share a histogram when the pool is used up", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeLatency({.or_above_quantile = 0.9, .cool_down_ms = 0}, fakes::Clock);
  for (uint32_t route = 1; route <= 3; ++route) {  // 192 kinds: all cells but the shared ones
    for (uint32_t size = 0; size < 64; ++size) trigger->OnFinish(Request(1, "/x", route, size), sink);
  }

  for (int i = 0; i < 128; ++i) {
    trigger->OnFinish(Request(100, "/late", 4, 1), sink);
    trigger->OnFinish(Request(100, "/late", 4, 2), sink);
    trigger->OnFinish(Request(5, "/other", 5, 1), sink);
    trigger->OnFinish(Request(5, "/other", 5, 2), sink);
  }

  CHECK(FindThresholdMs(*trigger, 1, "/late", 4) == Approx(100).epsilon(0.03));  // 256 together; 128 alone are too few
  CHECK(FindThresholdMs(*trigger, 2, "/late", 4) == Approx(100).epsilon(0.03));
  CHECK(FindThresholdMs(*trigger, 1, "/other", 5) == Approx(5).epsilon(0.03));
  trigger->OnFinish(Request(500, "/late", 4, 1), sink);
  REQUIRE_FALSE(sink.fired.empty());
  CHECK(sink.fired.back().detail.find("requests of its route") != std::string::npos);
}

TEST_CASE("a trigger on one route has a histogram for each of its size buckets", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeLatency({.route = "/classify", .or_above_quantile = 0.9, .cool_down_ms = 0}, fakes::Clock);

  for (int i = 0; i < 256; ++i) {
    for (uint32_t size = 0; size < 64; ++size) trigger->OnFinish(Request(1 + size, "/classify", 1, size), sink);
  }

  for (uint32_t size = 0; size < 64; ++size) {
    CHECK(FindThresholdMs(*trigger, size) == Approx(1 + size).epsilon(0.03));
  }
}

TEST_CASE("either threshold fires when both are set", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeLatency({.above_ms = 1000, .or_above_quantile = 0.9, .cool_down_ms = 0}, fakes::Clock);
  trigger->OnFinish(Request(2000), sink);
  REQUIRE(sink.fired.size() == 1);
  CHECK(sink.fired[0].detail == "2000.0 ms, above 1000 ms");

  for (int i = 0; i < 256; ++i) trigger->OnFinish(Request(20), sink);
  trigger->OnFinish(Request(50), sink);

  REQUIRE(sink.fired.size() == 2);
  CHECK(sink.fired[1].detail.find("above p90") != std::string::npos);
}

TEST_CASE("threads teach the quantile at once, fire once per cool-down and lose no count", "[trigger]") {
  auto trigger = MakeLatency(
      {.above_ms = 30, .or_above_quantile = 0.5, .memory = 1000000000, .warm_up_requests = 1000, .k = 2, .n = 4},
      fakes::Clock);
  fakes::CountingSink sink;
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (uint32_t i = 0; i < 32000; ++i) {
        trigger->OnFinish(Request(10, "/classify", 1, i % 3), sink);
        if (i % 100 == 0) trigger->OnFinish(Request(50, "/late", 2 + thread % 2, 0), sink);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  const uint64_t fired = sink.fired;
  fakes::Sink last;
  trigger->OnFinish(Request(20, "/classify", 1, 0), last);
  trigger->OnFinish(Request(20, "/classify", 1, 0), last);

  CHECK(fired == 2);  // routes 2 and 3, once each: the clock stands still
  REQUIRE(last.fired.size() == 1);
  CHECK(last.fired[0].detail.find("above p50 = 10.") != std::string::npos);
}

TEST_CASE("numbers beyond the tables do no harm", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeLatency({.or_above_quantile = 0.9, .warm_up_requests = 0, .cool_down_ms = 0}, fakes::Clock);

  pitot::RequestView request = Request(1, "/x", 4000000000u, 4000000000u);
  for (int i = 0; i < 5; ++i) trigger->OnFinish(request, sink);
  for (uint64_t latency_ns :
       {uint64_t{0}, uint64_t{1}, ~uint64_t{0}, uint64_t{1} << 42, (uint64_t{1} << 42) - 1, uint64_t{1} << 43}) {
    request.latency_ns = latency_ns;
    trigger->OnFinish(request, sink);
  }

  CHECK(sink.fired.size() >= 1);
}

TEST_CASE("a fixed threshold is passed by the first nanosecond above it", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeLatency({.above_ms = 40, .cool_down_ms = 0}, fakes::Clock);
  pitot::RequestView request = Request(40);

  trigger->OnFinish(request, sink);
  CHECK(sink.fired.empty());
  ++request.latency_ns;
  trigger->OnFinish(request, sink);

  REQUIRE(sink.fired.size() == 1);
  CHECK(sink.fired[0].detail == "40.0 ms, above 40 ms");
  CHECK_FALSE(sink.fired[0].joins_only);
}

TEST_CASE("without a fixed threshold no request is late", "[trigger]") {
  auto trigger = MakeLatency({.or_above_quantile = 0.9}, fakes::Clock);

  CHECK(trigger->LateAfterNs("/classify") == 0);
  CHECK(trigger->Route() == nullptr);
}

TEST_CASE("routes remember which of their last requests were above for themselves, up to 64 of them", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeLatency({.above_ms = 40, .k = 2, .n = 2, .cool_down_ms = 0}, fakes::Clock);

  trigger->OnFinish(Request(50, "/a", 1), sink);
  trigger->OnFinish(Request(50, "/b", 63), sink);
  trigger->OnFinish(Request(50, "/c", 64), sink);
  CHECK(sink.fired.empty());
  trigger->OnFinish(Request(50, "/d", 65), sink);  // shares with 1

  REQUIRE(sink.fired.size() == 1);
  CHECK(sink.fired[0].detail == "50.0 ms, above 40 ms, 2 of the last 2 requests were");
}

TEST_CASE("only the last n requests count, and n of one says no number", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeLatency({.above_ms = 40, .k = 2, .n = 3, .cool_down_ms = 0}, fakes::Clock);

  for (double latency : {50, 10, 10, 50, 10, 10}) trigger->OnFinish(Request(latency), sink);
  CHECK(sink.fired.empty());
  for (double latency : {50, 10, 50}) trigger->OnFinish(Request(latency), sink);
  REQUIRE(sink.fired.size() == 1);
  CHECK(sink.fired[0].detail == "50.0 ms, above 40 ms, 2 of the last 3 requests were");
}

TEST_CASE("a quantile's warm-up lasts as asked, or until a request is expected beyond it", "[trigger]") {
  // Requests before the quantile fires.
  const auto warm_up = [](double quantile, uint32_t asked) {
    auto trigger =
        MakeLatency({.or_above_quantile = quantile, .memory = 1'000'000, .warm_up_requests = asked, .cool_down_ms = 0},
                    fakes::Clock);
    for (int count = 0; count < 20'000; ++count) {
      fakes::Sink sink;
      trigger->OnFinish(Request(5000, "/classify", 1, 0, Outcome::kFailed), sink);  // teaches nothing
      if (!sink.fired.empty()) return count;
      trigger->OnFinish(Request(20), sink);
    }
    return -1;
  };

  CHECK(warm_up(0.9, 7) == 10);
  CHECK(warm_up(0.9, 300) == 300);
  CHECK(warm_up(0.75, 1) == 4);
  CHECK(warm_up(0.5, 1) == 2);
  CHECK(warm_up(0.98, 1) == 50);
  CHECK(warm_up(0.9999, 200) == 10'000);
}

TEST_CASE("a quantile says whether it is of the request's size or of its route", "[trigger]") {
  const auto detail = [](uint32_t size_bucket) {
    fakes::Sink sink;
    auto trigger = MakeLatency({.or_above_quantile = 0.9, .cool_down_ms = 0}, fakes::Clock);
    for (int i = 0; i < 256; ++i) trigger->OnFinish(Request(10, "/classify", 1, size_bucket), sink);
    REQUIRE(sink.fired.empty());
    trigger->OnFinish(Request(50, "/classify", 1, size_bucket), sink);
    return sink.fired.at(0).detail;
  };

  CHECK(detail(1) == "50.0 ms, above p90 = 10.0 ms of 256 requests of its size");
  CHECK(detail(0) == "50.0 ms, above p90 = 10.0 ms of 256 requests of its route");
}
