// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "trigger/fakes.h"
#include "trigger/make.h"

using fakes::Advance;

TEST_CASE("a trigger in its cool-down fires only to join a pending incident", "[trigger]") {
  using pitot::Trigger;
  std::vector<std::pair<const char*, std::unique_ptr<Trigger>>> triggers;
  triggers.emplace_back("latency", pitot::trigger::MakeLatency({.above_ms = 40}, fakes::Clock));
  triggers.emplace_back("failure", pitot::trigger::MakeFailure({}, fakes::Clock));
  triggers.emplace_back(
      "predicate", pitot::trigger::MakePredicate({.predicate = [](void*, const pitot::RequestView&) { return true; }},
                                                 fakes::Clock));
  triggers.emplace_back("tokens", pitot::trigger::MakeTokens({.gap_above_ms = 40}, fakes::Clock));
  for (const auto& [name, trigger] : triggers) {
    INFO(name);
    fakes::Sink sink;
    const auto happens = [&sink, &it = *trigger] {
      auto request = fakes::Request(50);
      request.outcome = pitot::Outcome::kFailed;
      it.OnFinish(request, sink);
      it.OnTokens(request, 50'000'000, sink);
    };

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
