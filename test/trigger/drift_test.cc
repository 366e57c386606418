// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "trigger/fakes.h"
#include "trigger/make.h"

using fakes::Advance;
using fakes::Request;
using pitot::Outcome;
using pitot::trigger::MakeDrift;

namespace {

// A jitter of +-20 %, the same each time; now and then a request takes ten times as long.
double Jitter(int i) { return (0.8 + 0.4 * (i * 37 % 101) / 100) * (i % 97 == 0 ? 10 : 1); }

void Serve(pitot::Trigger& trigger, fakes::Sink* sink, int count, double ms, uint32_t size_bucket = 3,
           Outcome outcome = Outcome::kOk) {
  for (int i = 0; i < count; ++i) {
    pitot::RequestView request = Request(ms * Jitter(i), "/classify", 1, size_bucket, outcome);
    trigger.OnFinish(request, *sink);
  }
}

}  // namespace

TEST_CASE("a route that becomes slower as a whole fires once, on a typical request", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeDrift({.cool_down_ms = 0}, fakes::Clock);

  Serve(*trigger, &sink, 10000, 20);
  CHECK(sink.fired.empty());
  Serve(*trigger, &sink, 3000, 26);

  REQUIRE(sink.fired.size() == 1);
  CHECK(sink.fired[0].cause == "drift /classify");
  CHECK(sink.fired[0].detail.find("median 2") == 0);
  CHECK(sink.fired[0].detail.find(" requests, +") != std::string::npos);
  CHECK(sink.fired[0].request == 7);
}

TEST_CASE("slow requests among the usual number of normal ones are not a drift, nor are faster requests", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeDrift({.cool_down_ms = 0}, fakes::Clock);

  Serve(*trigger, &sink, 5000, 20);
  for (int i = 0; i < 400; ++i) {
    Serve(*trigger, &sink, 8, 20);
    Serve(*trigger, &sink, 2, 200);
  }
  Serve(*trigger, &sink, 5000, 12);

  CHECK(sink.fired.empty());
}

TEST_CASE("more large requests are not a drift", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeDrift({.cool_down_ms = 0}, fakes::Clock);

  Serve(*trigger, &sink, 5000, 20, 3);
  Serve(*trigger, &sink, 5000, 80, 5);

  CHECK(sink.fired.empty());
}

TEST_CASE("requests that do not end well are not part of a drift, nor is a warm-up", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeDrift({.cool_down_ms = 0}, fakes::Clock);

  Serve(*trigger, &sink, 500, 10);
  Serve(*trigger, &sink, 500, 40);
  Serve(*trigger, &sink, 8000, 20);
  Serve(*trigger, &sink, 5000, 90, 3, Outcome::kTimedOut);

  CHECK(sink.fired.empty());
}

TEST_CASE("a second change is another drift, after the cool-down", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeDrift({.reference_requests = 5000, .cool_down_ms = 1000}, fakes::Clock);

  Serve(*trigger, &sink, 10000, 20);
  Serve(*trigger, &sink, 20000, 26);
  REQUIRE(sink.fired.size() == 1);
  Advance(1000);
  Serve(*trigger, &sink, 20000, 34);

  CHECK(sink.fired.size() == 2);
}

TEST_CASE("a drift trigger names a wrong option", "[trigger]") {
  const auto message = [](const pitot::DriftTriggerOptions& options) {
    return std::string(MakeDrift(options, fakes::Clock)->Check().message());
  };

  CHECK(message({}) == "");
  CHECK(message({.above_percent = 2}) == "DriftTriggerOptions::above_percent must be 5 to 1000");
  CHECK(message({.recent_requests = 0}) == "DriftTriggerOptions::recent_requests must be 100 to 1,000,000");
  CHECK(message({.recent_requests = ~0u}) == "DriftTriggerOptions::recent_requests must be 100 to 1,000,000");
  CHECK(message({.recent_requests = 500, .reference_requests = 4000}) ==
        "DriftTriggerOptions::reference_requests must be ten times recent_requests to 1,000,000,000");
  CHECK(message({.route = ""}).find("DriftTriggerOptions::route") == 0);
}

namespace {

// Requests of `usual_ms`; `slow` in 20 of them take `slow_ms`.
void ServeMixed(pitot::Trigger& trigger, fakes::Sink* sink, int count, double usual_ms, int slow, double slow_ms) {
  for (int i = 0; i < count; ++i)
    trigger.OnFinish(Request(i * 7 % 20 < slow ? slow_ms : usual_ms, "/classify", 1, 3), *sink);
}
// Requests of equal length.
void ServeEqual(pitot::Trigger& trigger, fakes::Sink* sink, int count, double ms, uint32_t route_index = 1,
                uint32_t size_bucket = 3) {
  for (int i = 0; i < count; ++i) trigger.OnFinish(Request(ms, "/classify", route_index, size_bucket), *sink);
}

}  // namespace

TEST_CASE("a route has drifted when half of its recent requests are slower, not two fifths", "[trigger]") {
  const auto fires = [](int slow) {
    fakes::Sink sink;
    auto trigger = MakeDrift({.cool_down_ms = 0}, fakes::Clock);
    ServeEqual(*trigger, &sink, 10000, 20);
    ServeMixed(*trigger, &sink, 5000, 20, slow, 40);
    return sink.fired.size();
  };

  CHECK(fires(9) == 0);   // 45 %
  CHECK(fires(11) == 1);  // 55 %
}

TEST_CASE("a drift is one from the median of the requests before, not from a slower or faster share", "[trigger]") {
  const auto fires = [](int slow) {
    fakes::Sink sink;
    auto trigger = MakeDrift({.cool_down_ms = 0}, fakes::Clock);
    ServeMixed(*trigger, &sink, 10000, 20, slow, 40);
    REQUIRE(sink.fired.empty());
    ServeEqual(*trigger, &sink, 2000, 30);
    return sink.fired.size();
  };

  CHECK(fires(9) == 1);   // the median was 20 ms
  CHECK(fires(11) == 0);  // it was 40 ms
}

TEST_CASE("a drift fires from the percentage asked for on", "[trigger]") {
  const auto fires = [](double above_percent, double ms) {
    fakes::Sink sink;
    auto trigger = MakeDrift({.above_percent = above_percent, .cool_down_ms = 0}, fakes::Clock);
    ServeEqual(*trigger, &sink, 10000, 20);
    ServeEqual(*trigger, &sink, 1000, ms);
    return sink.fired.size();
  };

  CHECK(fires(20, 23.2) == 0);
  CHECK(fires(20, 24.8) == 1);
  CHECK(fires(50, 29) == 0);
  CHECK(fires(50, 31) == 1);
}

TEST_CASE("a drift says both medians, the change and how many requests each rests on", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeDrift({.route = "/classify", .pre_window_ms = 5, .post_window_ms = 6}, fakes::Clock);
  Advance(700'000);

  ServeEqual(*trigger, &sink, 4096, 20);
  ServeEqual(*trigger, &sink, 1000, 30);

  REQUIRE(sink.fired.size() == 1);
  CHECK(sink.fired[0].cause == "drift /classify");
  CHECK(sink.fired[0].detail == "median 30.3 ms of the last 607 requests, +51 % to 20.0 ms of 4,544");
  CHECK(sink.fired[0].pre_window_ms == 5);
  CHECK(sink.fired[0].post_window_ms == 6);
  CHECK_FALSE(sink.fired[0].joins_only);
  CHECK(std::string(trigger->Route()) == "/classify");
}

TEST_CASE("a drift is told of a request within an eighth of the new median only", "[trigger]") {
  constexpr int kAtMost = 1000;
  const auto slow = [](pitot::Trigger& trigger) {
    fakes::Sink sink;
    ServeEqual(trigger, &sink, 1, 30);
    return !sink.fired.empty();
  };
  const auto make = [] {
    fakes::Sink sink;
    auto trigger = MakeDrift({.cool_down_ms = 0}, fakes::Clock);
    ServeEqual(*trigger, &sink, 10000, 20);
    return trigger;
  };
  int before = 0;  // requests of 30 ms before the firing one
  for (auto trigger = make(); before < kAtMost && !slow(*trigger);) ++before;
  REQUIRE(before < kAtMost);

  for (const auto& [ms, is_typical] : {std::pair{34.2, false}, {33.0, true}, {27.5, true}, {26.0, false}}) {
    INFO(ms);
    auto trigger = make();
    for (int i = 0; i < before; ++i) REQUIRE_FALSE(slow(*trigger));
    fakes::Sink sink;
    ServeEqual(*trigger, &sink, 1, ms);

    CHECK(sink.fired.size() == (is_typical ? 1 : 0));
    CHECK(slow(*trigger) == !is_typical);  // the next typical one
  }
}

TEST_CASE("a drift that comes in two steps is not taken for normal in between", "[trigger]") {
  // 15 % above 20 ms may be a drift. 5 % is none, so the next step is compared with the one in between.
  const auto fires = [](double between_ms) {
    fakes::Sink sink;
    auto trigger = MakeDrift({.reference_requests = 5000, .cool_down_ms = 0}, fakes::Clock);
    ServeEqual(*trigger, &sink, 10000, 20);
    ServeEqual(*trigger, &sink, 10000, between_ms);
    REQUIRE(sink.fired.empty());
    ServeEqual(*trigger, &sink, 1000, 24.9);
    return sink.fired.size();
  };

  CHECK(fires(23) == 1);
  CHECK(fires(21.3) == 0);
}

TEST_CASE("a suspected drift that stays becomes normal in eight times the requests", "[trigger]") {
  const auto fires = [](int between) {
    fakes::Sink sink;
    auto trigger = MakeDrift({.reference_requests = 5000, .cool_down_ms = 0}, fakes::Clock);
    ServeEqual(*trigger, &sink, 10000, 20);
    ServeEqual(*trigger, &sink, between, 23);
    ServeEqual(*trigger, &sink, 1000, 25);
    return sink.fired.size();
  };

  CHECK(fires(15'000) == 1);
  CHECK(fires(60'000) == 0);
}

TEST_CASE("every route and every size drifts for itself", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeDrift({.cool_down_ms = 0}, fakes::Clock);
  const auto serve = [&](double ms, int count) {
    for (const auto& [route, size] : {std::pair{1u, 3u}, {1u, 5u}, {2u, 3u}, {63u, 63u}})
      ServeEqual(*trigger, &sink, count, ms, route, size);
  };

  serve(20, 10000);
  serve(30, 1000);

  CHECK(sink.fired.size() == 4);
}

TEST_CASE("a drift of another size within the cool-down only joins what is pending", "[trigger]") {
  for (const bool may_join : {false, true}) {
    fakes::Sink sink;
    auto trigger = MakeDrift({.cool_down_ms = 1000}, fakes::Clock);
    ServeEqual(*trigger, &sink, 10000, 20, 1, 3);
    ServeEqual(*trigger, &sink, 10000, 20, 1, 5);
    ServeEqual(*trigger, &sink, 1000, 30, 1, 3);
    REQUIRE(sink.fired.size() == 1);
    sink.may_join = may_join;

    ServeEqual(*trigger, &sink, 1000, 30, 1, 5);

    REQUIRE(sink.fired.size() == (may_join ? 2 : 1));
    CHECK(sink.fired.back().joins_only == may_join);
    Advance(1000);
  }
}

TEST_CASE("a drift that went back to normal may come again", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeDrift({.cool_down_ms = 0}, fakes::Clock);

  ServeEqual(*trigger, &sink, 10000, 20);
  for (int times = 1; times <= 3; ++times) {
    ServeEqual(*trigger, &sink, 1000, 30);
    CHECK(sink.fired.size() == static_cast<size_t>(times));
    ServeEqual(*trigger, &sink, 1000, 20);
  }

  CHECK(sink.fired.size() == 3);
}

TEST_CASE("a reference is known after four times the recent requests", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeDrift({.recent_requests = 100, .reference_requests = 1000, .cool_down_ms = 0}, fakes::Clock);

  ServeEqual(*trigger, &sink, 300, 20);
  ServeEqual(*trigger, &sink, 100, 40);
  CHECK(sink.fired.empty());
  ServeEqual(*trigger, &sink, 1, 40);

  CHECK(sink.fired.size() == 1);
}

TEST_CASE("a drift trigger keeps to its route", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeDrift({.route = "/other", .cool_down_ms = 0}, fakes::Clock);

  ServeEqual(*trigger, &sink, 10000, 20);
  ServeEqual(*trigger, &sink, 1000, 40);

  CHECK(sink.fired.empty());
}

TEST_CASE("the first and last accepted value of each drift option", "[trigger]") {
  const auto is_ok = [](const pitot::DriftTriggerOptions& options) {
    return MakeDrift(options, fakes::Clock)->Check().ok();
  };

  CHECK(is_ok({.above_percent = 5}));
  CHECK_FALSE(is_ok({.above_percent = 4.9}));
  CHECK(is_ok({.above_percent = 1000}));
  CHECK_FALSE(is_ok({.above_percent = 1001}));
  CHECK(is_ok({.recent_requests = 100, .reference_requests = 1000}));
  CHECK_FALSE(is_ok({.recent_requests = 99, .reference_requests = 1000}));
  CHECK_FALSE(is_ok({.recent_requests = 100, .reference_requests = 999}));
  CHECK(is_ok({.recent_requests = 1'000'000, .reference_requests = 10'000'000}));
  CHECK_FALSE(is_ok({.recent_requests = 1'000'001, .reference_requests = 20'000'000}));
  CHECK(is_ok({.reference_requests = 1'000'000'000}));
  CHECK_FALSE(is_ok({.reference_requests = 1'000'000'001}));
}
