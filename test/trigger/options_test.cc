// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <limits>
#include <string>

#include "trigger/fakes.h"
#include "trigger/make.h"

using Catch::Matchers::StartsWith;
using namespace pitot;

namespace {

const std::string kLongName(121, 'x');
const double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

template <class Made> std::string Problem(const Made& trigger) {
  REQUIRE(trigger != nullptr);
  const Status status = trigger->Check();
  if (!status.ok()) CHECK(status.code() == StatusCode::kInvalidArgument);
  return status.message();
}

}  // namespace

TEST_CASE("a wrong latency option is named", "[trigger]") {
  const auto problem = [](const LatencyTriggerOptions& options) { return Problem(MakeLatencyTrigger(options)); };

  CHECK(problem({.above_ms = 50}) == "");
  CHECK(problem({.route = "/a", .or_above_quantile = 0.9999, .k = 64, .n = 64}) == "");
  CHECK_THAT(problem({}), StartsWith("LatencyTriggerOptions::above_ms or or_above_quantile must be set"));
  CHECK_THAT(problem({.above_ms = -1}), StartsWith("LatencyTriggerOptions::above_ms "));
  CHECK_THAT(problem({.above_ms = kNan}), StartsWith("LatencyTriggerOptions::above_ms "));
  CHECK_THAT(problem({.above_ms = kInfinity}), StartsWith("LatencyTriggerOptions::above_ms "));
  CHECK_THAT(problem({.or_above_quantile = 0.49}), StartsWith("LatencyTriggerOptions::or_above_quantile "));
  CHECK_THAT(problem({.or_above_quantile = 0.99999}), StartsWith("LatencyTriggerOptions::or_above_quantile "));
  CHECK_THAT(problem({.or_above_quantile = kNan}), StartsWith("LatencyTriggerOptions::or_above_quantile "));
  CHECK_THAT(problem({.or_above_quantile = -0.9}), StartsWith("LatencyTriggerOptions::or_above_quantile "));
  CHECK_THAT(problem({.or_above_quantile = 0.9, .memory = 0}), StartsWith("LatencyTriggerOptions::memory "));
  CHECK_THAT(problem({.or_above_quantile = 0.9, .memory = 63}), StartsWith("LatencyTriggerOptions::memory "));
  CHECK_THAT(problem({.or_above_quantile = 0.9, .warm_up_requests = 4000000000u}),
             StartsWith("LatencyTriggerOptions::warm_up_requests "));
  CHECK_THAT(problem({.above_ms = 1, .k = 0}), StartsWith("LatencyTriggerOptions::k "));
  CHECK_THAT(problem({.above_ms = 1, .k = 3, .n = 2}), StartsWith("LatencyTriggerOptions::k "));
  CHECK_THAT(problem({.above_ms = 1, .n = 0}), StartsWith("LatencyTriggerOptions::n "));
  CHECK_THAT(problem({.above_ms = 1, .n = 65}), StartsWith("LatencyTriggerOptions::n "));
  CHECK_THAT(problem({.route = "", .above_ms = 1}), StartsWith("LatencyTriggerOptions::route "));
  CHECK_THAT(problem({.route = kLongName.c_str(), .above_ms = 1}), StartsWith("LatencyTriggerOptions::route "));
  CHECK_THAT(problem({.above_ms = 1, .pre_window_ms = 3600001}), StartsWith("LatencyTriggerOptions::pre_window_ms "));
  CHECK_THAT(problem({.above_ms = 1, .post_window_ms = 60001}), StartsWith("LatencyTriggerOptions::post_window_ms "));
}

TEST_CASE("a wrong failure option is named", "[trigger]") {
  const auto problem = [](const FailureTriggerOptions& options) { return Problem(MakeFailureTrigger(options)); };

  CHECK(problem({}) == "");
  CHECK_THAT(problem({.on_failed = false, .on_timed_out = false}), StartsWith("FailureTriggerOptions::on_failed "));
  CHECK_THAT(problem({.route = kLongName.c_str()}), StartsWith("FailureTriggerOptions::route "));
  CHECK_THAT(problem({.post_window_ms = 60001}), StartsWith("FailureTriggerOptions::post_window_ms "));
}

TEST_CASE("a wrong tokens option is named", "[trigger]") {
  const auto problem = [](const TokensTriggerOptions& options) { return Problem(MakeTokensTrigger(options)); };

  CHECK(problem({.gap_above_ms = 1}) == "");
  CHECK_THAT(problem({}), StartsWith("TokensTriggerOptions::first_token_above_ms or gap_above_ms must be set"));
  CHECK_THAT(problem({.first_token_above_ms = -1}), StartsWith("TokensTriggerOptions::first_token_above_ms "));
  CHECK_THAT(problem({.gap_above_ms = kNan}), StartsWith("TokensTriggerOptions::gap_above_ms "));
  CHECK_THAT(problem({.route = "", .gap_above_ms = 1}), StartsWith("TokensTriggerOptions::route "));
  CHECK_THAT(problem({.gap_above_ms = 1, .pre_window_ms = 3600001}),
             StartsWith("TokensTriggerOptions::pre_window_ms "));
}

TEST_CASE("a wrong stall option is named", "[trigger]") {
  const auto problem = [](const StallTriggerOptions& options) { return Problem(MakeStallTrigger(options)); };

  CHECK(problem({.scope = "decode", .scope_open_ms = 1}) == "");
  CHECK_THAT(problem({}), StartsWith("StallTriggerOptions::request_open_ms or scope_open_ms must be set"));
  CHECK_THAT(problem({.request_open_ms = kInfinity}), StartsWith("StallTriggerOptions::request_open_ms "));
  CHECK_THAT(problem({.scope_open_ms = -1}), StartsWith("StallTriggerOptions::scope_open_ms "));
  CHECK_THAT(problem({.scope = kLongName.c_str(), .scope_open_ms = 1}), StartsWith("StallTriggerOptions::scope "));
  CHECK_THAT(problem({.route = "", .request_open_ms = 1}), StartsWith("StallTriggerOptions::route "));
  CHECK_THAT(problem({.request_open_ms = 1, .post_window_ms = 60001}),
             StartsWith("StallTriggerOptions::post_window_ms "));
}

TEST_CASE("a wrong predicate option is named", "[trigger]") {
  const auto problem = [](const PredicateTriggerOptions& options) { return Problem(MakePredicateTrigger(options)); };
  constexpr auto kYes = [](void*, const RequestView&) { return true; };

  CHECK(problem({.predicate = kYes}) == "");
  CHECK_THAT(problem({}), StartsWith("PredicateTriggerOptions::predicate "));
  CHECK_THAT(problem({.predicate = kYes, .cause = nullptr}), StartsWith("PredicateTriggerOptions::cause "));
  CHECK_THAT(problem({.predicate = kYes, .cause = ""}), StartsWith("PredicateTriggerOptions::cause "));
  CHECK_THAT(problem({.predicate = kYes, .cause = kLongName.c_str()}), StartsWith("PredicateTriggerOptions::cause "));
  CHECK_THAT(problem({.predicate = kYes, .pre_window_ms = 3600001}),
             StartsWith("PredicateTriggerOptions::pre_window_ms "));
}

TEST_CASE("a trigger with refused options does no harm if it is used anyway", "[trigger]") {
  fakes::Sink sink;

  MakeLatencyTrigger({.or_above_quantile = kNan, .memory = 0, .n = 65})->OnFinish(fakes::Request(5), sink);
  MakePredicateTrigger({})->OnFinish(fakes::Request(5), sink);
  MakeStallTrigger({.request_open_ms = kNan})->OnOpenRequest(fakes::Request(5), sink);

  CHECK(sink.fired.empty());
}

TEST_CASE("functions a trigger does not override do nothing", "[trigger]") {
  class Plain final : public Trigger {};
  Plain trigger;
  fakes::Sink sink;

  trigger.OnFinish(fakes::Request(5), sink);
  trigger.OnTokens(fakes::Request(5), 1, sink);
  trigger.OnOpenRequest(fakes::Request(5), sink);
  trigger.OnOpenScope({"x", 1, 1, false}, sink);

  CHECK(trigger.Check().ok());
  CHECK(trigger.LateAfterNs("/a") == 0);
  CHECK(sink.fired.empty());
}
