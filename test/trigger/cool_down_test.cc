// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "trigger/fakes.h"
#include "trigger/make.h"

using fakes::Advance;

namespace {

std::vector<std::pair<const char*, std::unique_ptr<pitot::Trigger>>> Triggers() {
  std::vector<std::pair<const char*, std::unique_ptr<pitot::Trigger>>> triggers;
  triggers.emplace_back("latency", pitot::trigger::MakeLatency({.above_ms = 40}, fakes::Clock));
  triggers.emplace_back("failure", pitot::trigger::MakeFailure({}, fakes::Clock));
  triggers.emplace_back(
      "predicate", pitot::trigger::MakePredicate({.predicate = [](void*, const pitot::RequestView&) { return true; }},
                                                 fakes::Clock));
  triggers.emplace_back("tokens", pitot::trigger::MakeTokens({.gap_above_ms = 40}, fakes::Clock));
  return triggers;
}

// An event for each of them.
void Happens(pitot::Trigger* trigger, fakes::Sink* sink) {
  auto request = fakes::Request(50);
  request.outcome = pitot::Outcome::kFailed;
  trigger->OnFinish(request, *sink);
  trigger->OnTokens(request, 50'000'000, *sink);
}

}  // namespace

TEST_CASE("a trigger in its cool-down fires only to join a pending incident", "[trigger]") {
  for (const auto& [name, trigger] : Triggers()) {
    INFO(name);
    fakes::Sink sink;
    const auto happens = [&sink, &it = *trigger] { Happens(&it, &sink); };

    happens();
    happens();
    CHECK(sink.fired.size() == 1);
    sink.may_join = true;
    happens();
    sink.may_join = false;
    Advance(1000);
    happens();

    REQUIRE(sink.fired.size() == 3);
    CHECK(!sink.fired[0].joins_only);
    CHECK(sink.fired[1].joins_only);
    CHECK(sink.fired[1].cause == sink.fired[0].cause);
    CHECK(!sink.fired[2].joins_only);
  }
}

TEST_CASE("an event twice as bad as the one that fired breaks the cool-down, and begins another", "[trigger]") {
  fakes::Sink sink;
  const auto trigger = pitot::trigger::MakeLatency({.above_ms = 40}, fakes::Clock);
  const auto takes = [&](uint64_t ms) {
    const size_t before = sink.fired.size();
    trigger->OnFinish(fakes::Request(static_cast<double>(ms)), sink);
    return sink.fired.size() > before;
  };

  CHECK(takes(50));
  CHECK_FALSE(takes(99));
  CHECK(takes(100));
  CHECK_FALSE(takes(199));
  CHECK(takes(300));
  Advance(1000);
  CHECK(takes(50));
  CHECK(takes(100));
}

TEST_CASE("events of a cool-down, and firings for which there was no room, are counted by the next firing",
          "[trigger]") {
  for (const auto& [name, trigger] : Triggers()) {
    INFO(name);
    fakes::Sink sink;
    const auto happens = [&sink, &it = *trigger](uint64_t later_ms) {
      Advance(later_ms);
      Happens(&it, &sink);
    };

    happens(0);
    happens(0);
    happens(0);
    sink.takes = false;
    happens(1000);
    sink.takes = true;
    happens(1000);
    happens(1000);

    REQUIRE(sink.fired.size() == 4);
    CHECK(sink.fired[0].more_like_it == 0);
    CHECK(sink.fired[1].more_like_it == 2);
    CHECK(sink.fired[2].more_like_it == 3);  // and the one that found no room
    CHECK(sink.fired[3].more_like_it == 0);
  }
}
