// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "trigger/fakes.h"
#include "trigger/make.h"

using fakes::Advance;
using fakes::Request;
using pitot::Outcome;
using pitot::trigger::MakeFailure;

namespace {

std::vector<fakes::Fired> FireWith(const pitot::FailureTriggerOptions& options, Outcome outcome) {
  fakes::Sink sink;
  pitot::RequestView request = Request(41.3, "/classify", 1, 0, outcome);
  request.deadline_ns = 40000000;
  MakeFailure(options, fakes::Clock)->OnFinish(request, sink);
  return sink.fired;
}

}  // namespace

TEST_CASE("a failed and a timed-out request fire, each under its own cause", "[trigger]") {
  const auto failed = FireWith({}, Outcome::kFailed), timed_out = FireWith({}, Outcome::kTimedOut);

  REQUIRE(failed.size() == 1);
  CHECK(failed[0].request == 7);
  CHECK(failed[0].cause == "failed /classify");
  CHECK(failed[0].detail == "failed after 41.3 ms, deadline 40.0 ms");
  REQUIRE(timed_out.size() == 1);
  CHECK(timed_out[0].cause == "timed_out /classify");
  CHECK(timed_out[0].detail == "timed out after 41.3 ms, deadline 40.0 ms");
}

TEST_CASE("other outcomes do not fire, an abandoned request only when asked", "[trigger]") {
  CHECK(FireWith({}, Outcome::kOk).empty());
  CHECK(FireWith({}, Outcome::kCancelled).empty());
  CHECK(FireWith({}, Outcome::kShed).empty());
  CHECK(FireWith({}, Outcome::kAbandoned).empty());
  REQUIRE(FireWith({.on_abandoned = true}, Outcome::kAbandoned).size() == 1);
  CHECK(FireWith({.on_abandoned = true}, Outcome::kAbandoned)[0].cause == "abandoned /classify");
  CHECK(FireWith({.on_failed = false}, Outcome::kFailed).empty());
  CHECK(FireWith({.on_timed_out = false}, Outcome::kTimedOut).empty());
}

TEST_CASE("a failure trigger keeps to its route and cools down", "[trigger]") {
  fakes::Sink sink;
  auto trigger =
      MakeFailure({.route = "/a", .cool_down_ms = 1000, .pre_window_ms = 5, .post_window_ms = 6}, fakes::Clock);

  trigger->OnFinish(Request(1, "/b", 2, 0, Outcome::kFailed), sink);
  CHECK(sink.fired.empty());
  trigger->OnFinish(Request(1, "/a", 1, 0, Outcome::kFailed), sink);
  trigger->OnFinish(Request(1, "/a", 1, 0, Outcome::kFailed), sink);
  CHECK(sink.fired.size() == 1);
  Advance(1000);
  trigger->OnFinish(Request(1, "/a", 1, 0, Outcome::kFailed), sink);

  REQUIRE(sink.fired.size() == 2);
  CHECK(sink.fired[0].pre_window_ms == 5);
  CHECK(sink.fired[0].post_window_ms == 6);
}

TEST_CASE("a failure trigger may watch any one outcome alone", "[trigger]") {
  for (const Outcome watched : {Outcome::kFailed, Outcome::kTimedOut, Outcome::kAbandoned}) {
    const pitot::FailureTriggerOptions options = {.on_failed = watched == Outcome::kFailed,
                                                  .on_timed_out = watched == Outcome::kTimedOut,
                                                  .on_abandoned = watched == Outcome::kAbandoned};

    CHECK(MakeFailure(options, fakes::Clock)->Check().ok());
    for (const Outcome outcome : {Outcome::kOk, Outcome::kFailed, Outcome::kTimedOut, Outcome::kAbandoned})
      CHECK(FireWith(options, outcome).size() == (outcome == watched ? 1 : 0));
  }
}

TEST_CASE("a failed request without a deadline names none", "[trigger]") {
  fakes::Sink sink;
  MakeFailure({}, fakes::Clock)->OnFinish(Request(41.3, "/classify", 1, 0, Outcome::kFailed), sink);

  REQUIRE(sink.fired.size() == 1);
  CHECK(sink.fired[0].detail == "failed after 41.3 ms");
  CHECK_FALSE(sink.fired[0].joins_only);
}

TEST_CASE("a failure trigger names its route", "[trigger]") {
  CHECK(std::string(MakeFailure({.route = "/a"}, fakes::Clock)->Route()) == "/a");
  CHECK(MakeFailure({}, fakes::Clock)->Route() == nullptr);
}
