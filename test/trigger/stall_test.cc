// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "trigger/fakes.h"
#include "trigger/make.h"

using fakes::Advance;
using fakes::Request;
using pitot::trigger::MakeStall;

namespace {

pitot::RequestView Open(uint64_t id, double so_far_ms, const char* route = "/classify", uint32_t route_index = 1) {
  pitot::RequestView request = Request(so_far_ms, route, route_index);
  request.id = id;
  return request;
}
constexpr uint64_t kMs = 1000000;

}  // namespace

TEST_CASE("a request open too long fires once though it stays open", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeStall({.request_open_ms = 500, .cool_down_ms = 10000}, fakes::Clock);

  trigger->OnOpenRequest(Open(1, 500), sink);
  CHECK(sink.fired.empty());
  for (int tick = 1; tick < 5000; ++tick) {
    trigger->OnOpenRequest(Open(1, 500 + tick * 10), sink);
    Advance(10);
  }

  REQUIRE(sink.fired.size() == 1);
  CHECK(sink.fired[0].request == 1);
  CHECK(sink.fired[0].cause == "stall request /classify");
  CHECK(sink.fired[0].detail == "open for 510.0 ms, above 500.0 ms");
}

TEST_CASE("a second stalled request of a route fires after the cool-down", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeStall({.route = "/classify", .request_open_ms = 500, .cool_down_ms = 10000}, fakes::Clock);

  trigger->OnOpenRequest(Open(1, 600), sink);
  trigger->OnOpenRequest(Open(2, 600), sink);
  trigger->OnOpenRequest(Open(3, 600, "/other", 2), sink);
  CHECK(sink.fired.size() == 1);
  Advance(10000);
  trigger->OnOpenRequest(Open(1, 10600), sink);
  trigger->OnOpenRequest(Open(2, 10600), sink);

  REQUIRE(sink.fired.size() == 2);
  CHECK(sink.fired[1].request == 2);
}

TEST_CASE("a scope open too long fires once per stall and thread", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeStall({.scope = "decode", .scope_open_ms = 100, .cool_down_ms = 0}, fakes::Clock);
  Advance(100000);

  for (uint64_t open_ms = 90; open_ms < 500; open_ms += 10, Advance(10)) {
    trigger->OnOpenScope({"decode", 4, open_ms * kMs, false}, sink);
    trigger->OnOpenScope({"other", 4, open_ms * kMs, false}, sink);
  }
  REQUIRE(sink.fired.size() == 1);
  CHECK(sink.fired[0].request == 0);
  CHECK(sink.fired[0].cause == "stall scope decode");
  CHECK(sink.fired[0].detail == "open for 110.0 ms on thread #4, above 100.0 ms");
  trigger->OnOpenScope({"decode", 5, 150 * kMs, false}, sink);  // of another thread
  CHECK(sink.fired.size() == 2);
  for (uint64_t open_ms = 10; open_ms < 300; open_ms += 10, Advance(10)) {  // the same scope again
    trigger->OnOpenScope({"decode", 4, open_ms * kMs, false}, sink);
  }

  CHECK(sink.fired.size() == 3);
}

TEST_CASE("recursive scopes of one stall fire once", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeStall({.scope_open_ms = 100, .cool_down_ms = 0}, fakes::Clock);
  Advance(100000);

  for (uint64_t tick = 0; tick < 50; ++tick, Advance(10)) {
    trigger->OnOpenScope({"decode", 4, (150 + tick * 10) * kMs, false}, sink);
    trigger->OnOpenScope({"decode", 4, (140 + tick * 10) * kMs, false}, sink);
  }

  CHECK(sink.fired.size() == 1);
}

TEST_CASE("ended stalls are forgotten", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeStall({.request_open_ms = 100, .cool_down_ms = 0}, fakes::Clock);

  for (uint64_t id = 1; id <= 10000; ++id) {
    trigger->OnOpenRequest(Open(id, 150), sink);
    Advance(10);
  }

  CHECK(sink.fired.size() == 10000);
  trigger->OnOpenRequest(Open(10000, 160), sink);
  CHECK(sink.fired.size() == 10000);
}

TEST_CASE("all requests stalled when one fires join it and do not fire again", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeStall({.request_open_ms = 500, .cool_down_ms = 10000}, fakes::Clock);

  trigger->OnOpenRequest(Open(1, 600), sink);
  sink.may_join = true;
  trigger->OnOpenRequest(Open(2, 600), sink);
  trigger->OnOpenRequest(Open(3, 400), sink);
  REQUIRE(sink.fired.size() == 2);
  CHECK(!sink.fired[0].joins_only);
  CHECK(sink.fired[1].joins_only);
  sink.may_join = false;
  Advance(20000);
  for (uint64_t id = 1; id <= 3; ++id) trigger->OnOpenRequest(Open(id, 20600), sink);

  REQUIRE(sink.fired.size() == 3);
  CHECK(sink.fired[2].request == 3);
  CHECK(!sink.fired[2].joins_only);
}

TEST_CASE("a stall with a refused firing fires again", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeStall({.request_open_ms = 500, .scope_open_ms = 500, .cool_down_ms = 0}, fakes::Clock);

  for (const bool takes : {false, true, true}) {
    sink.takes = takes;
    trigger->OnOpenRequest(Open(1, 600), sink);
    trigger->OnOpenScope({"decode", 4, 600 * kMs, false}, sink);
  }

  CHECK(sink.fired.size() == 4);
}

TEST_CASE("a wait counts as an open scope by its name only", "[trigger]") {
  fakes::Sink sink;
  auto any = MakeStall({.scope_open_ms = 100}, fakes::Clock);
  auto waits = MakeStall({.scope = "wait", .scope_open_ms = 100}, fakes::Clock);

  any->OnOpenScope({"wait", 1, 5000 * kMs, true}, sink);
  CHECK(sink.fired.empty());
  waits->OnOpenScope({"wait", 1, 5000 * kMs, true}, sink);

  CHECK(sink.fired.size() == 1);
}

TEST_CASE("open work is watched if its threshold is set", "[trigger]") {
  CHECK(MakeStall({.request_open_ms = 1}, fakes::Clock)->WatchesOpenRequests());
  CHECK(!MakeStall({.request_open_ms = 1}, fakes::Clock)->WatchesOpenScopes());
  CHECK(MakeStall({.scope_open_ms = 1}, fakes::Clock)->WatchesOpenScopes());
  CHECK(!MakeStall({.scope_open_ms = 1}, fakes::Clock)->WatchesOpenRequests());
}

TEST_CASE("unwatched work does not fire", "[trigger]") {
  fakes::Sink sink;

  MakeStall({.request_open_ms = 100}, fakes::Clock)->OnOpenScope({"decode", 1, 5000 * kMs, false}, sink);
  MakeStall({.scope_open_ms = 100}, fakes::Clock)->OnOpenRequest(Open(1, 5000), sink);

  CHECK(sink.fired.empty());
}

TEST_CASE("a scope is stalled from the first nanosecond above the threshold on", "[trigger]") {
  fakes::Sink sink;
  auto trigger =
      MakeStall({.scope_open_ms = 100, .cool_down_ms = 0, .pre_window_ms = 5, .post_window_ms = 6}, fakes::Clock);
  Advance(100'000);

  trigger->OnOpenScope({"decode", 4, 100 * kMs, false}, sink);
  CHECK(sink.fired.empty());
  trigger->OnOpenScope({"decode", 4, 100 * kMs + 1, false}, sink);

  REQUIRE(sink.fired.size() == 1);
  CHECK(sink.fired[0].pre_window_ms == 5);
  CHECK(sink.fired[0].post_window_ms == 6);
  CHECK_FALSE(sink.fired[0].joins_only);
}

TEST_CASE("a scope that began up to 20 ms later on its thread is the same stall", "[trigger]") {
  for (const auto& [later_ns, fired] : {std::pair{20 * kMs, 1u}, {20 * kMs + 1, 2u}}) {
    INFO(later_ns);
    fakes::Sink sink;
    auto trigger = MakeStall({.scope_open_ms = 100, .cool_down_ms = 0}, fakes::Clock);
    Advance(100'000);
    trigger->OnOpenScope({"decode", 4, 200 * kMs, false}, sink);

    trigger->OnOpenScope({"decode", 4, 200 * kMs - later_ns, false}, sink);

    CHECK(sink.fired.size() == fired);
  }
}

TEST_CASE("scopes of other names cool down for themselves, and of one name together", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeStall({.scope_open_ms = 100, .cool_down_ms = 1000}, fakes::Clock);
  Advance(100'000);

  trigger->OnOpenScope({"decode", 4, 200 * kMs, false}, sink);
  trigger->OnOpenScope({"decode", 5, 200 * kMs, false}, sink);
  CHECK(sink.fired.size() == 1);
  trigger->OnOpenScope({"encode", 4, 200 * kMs, false}, sink);
  CHECK(sink.fired.size() == 2);
  sink.may_join = true;
  trigger->OnOpenScope({"decode", 6, 200 * kMs, false}, sink);

  REQUIRE(sink.fired.size() == 3);
  CHECK(sink.fired[2].joins_only);
}

TEST_CASE("a scope open since before the clock began is a stall like any", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeStall({.scope_open_ms = 100, .cool_down_ms = 0}, fakes::Clock);
  fakes::now_ns = 150 * kMs;

  trigger->OnOpenScope({"decode", 4, 200 * kMs, false}, sink);
  trigger->OnOpenScope({"decode", 4, 200 * kMs, false}, sink);
  CHECK(sink.fired.size() == 1);
  trigger->OnOpenScope({"decode", 4, 125 * kMs, false}, sink);

  CHECK(sink.fired.size() == 2);
}

TEST_CASE("a name and its letters in another order are two scopes", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeStall({.scope_open_ms = 100, .cool_down_ms = 1000}, fakes::Clock);
  Advance(100'000);

  trigger->OnOpenScope({"on", 4, 200 * kMs, false}, sink);
  trigger->OnOpenScope({"no", 4, 200 * kMs, false}, sink);
  trigger->OnOpenScope({"o", 4, 200 * kMs, false}, sink);

  CHECK(sink.fired.size() == 3);
}

TEST_CASE("more than 1,024 stalls are remembered for a second after they were last seen", "[trigger]") {
  // `known` requests fire, `quiet_ms` later another does, and then the first is seen again.
  const auto fires_again = [](uint64_t known, uint64_t quiet_ms) {
    fakes::Sink sink;
    auto trigger = MakeStall({.request_open_ms = 100, .cool_down_ms = 0}, fakes::Clock);
    Advance(100'000);
    for (uint64_t id = 1; id <= known; ++id) trigger->OnOpenRequest(Open(id, 150), sink);
    Advance(quiet_ms);
    trigger->OnOpenRequest(Open(9999, 150), sink);
    REQUIRE(sink.fired.size() == known + 1);
    trigger->OnOpenRequest(Open(1, 150), sink);
    return sink.fired.size() == known + 2;
  };

  CHECK(fires_again(1024, 1001));
  CHECK_FALSE(fires_again(1024, 1000));
  CHECK_FALSE(fires_again(1023, 1001));
}

TEST_CASE("a stall that is still seen is not forgotten", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeStall({.request_open_ms = 100, .cool_down_ms = 0}, fakes::Clock);
  Advance(100'000);
  for (uint64_t id = 1; id <= 1024; ++id) trigger->OnOpenRequest(Open(id, 150), sink);
  for (int second = 0; second < 5; ++second) {
    Advance(900);
    trigger->OnOpenRequest(Open(1, 5000), sink);
  }

  trigger->OnOpenRequest(Open(9999, 150), sink);
  CHECK(sink.fired.size() == 1025);
  trigger->OnOpenRequest(Open(1, 5000), sink);
  CHECK(sink.fired.size() == 1025);
  trigger->OnOpenRequest(Open(2, 5000), sink);

  CHECK(sink.fired.size() == 1026);
}

TEST_CASE("while many stalls last the next look for old ones comes at twice as many", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeStall({.request_open_ms = 100, .cool_down_ms = 0}, fakes::Clock);
  Advance(100'000);
  const auto fire = [&](uint64_t first, uint64_t last) {
    for (uint64_t id = first; id <= last; ++id) trigger->OnOpenRequest(Open(id, 150), sink);
  };
  fire(1, 1025);  // the look at the 1,025th keeps all
  Advance(2000);
  fire(1026, 2048);
  trigger->OnOpenRequest(Open(1, 150), sink);
  CHECK(sink.fired.size() == 2048);
  fire(2049, 2049);
  CHECK(sink.fired.size() == 2049);
  trigger->OnOpenRequest(Open(2, 150), sink);

  CHECK(sink.fired.size() == 2050);
}
