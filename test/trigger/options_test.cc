// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <string>

#include "trigger/fakes.h"
#include "trigger/firing_rules.h"
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
  CHECK_THAT(problem({}), StartsWith("TokensTriggerOptions::first_token_above_ms or another threshold must be set"));
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

// ---- What the built-in triggers share

TEST_CASE("a line keeps what fits and cuts the rest", "[trigger]") {
  trigger::Line<8> line;
  line.Add("abc");
  CHECK(std::string(line.text()) == "abc");
  line.Add("%s", "defgh");
  CHECK(std::string(line.text()) == "abcdefg");
  for (int i = 0; i < 100; ++i) line.Add("x");  // a full line stays within its room
  CHECK(std::string(line.text()) == "abcdefg");

  trigger::Line<8> full;
  full.Add("abcdefg");
  full.Add("x");
  CHECK(std::string(full.text()) == "abcdefg");

  trigger::Line<8> one_more;
  one_more.Add("abcdef");
  one_more.Add("gh");
  CHECK(std::string(one_more.text()) == "abcdefg");
}

TEST_CASE("counts have a comma before every third digit from the right", "[trigger]") {
  for (const auto& [count, text] : {std::pair<uint64_t, const char*>{0, "0"},
                                    {12, "12"},
                                    {999, "999"},
                                    {1203, "1,203"},
                                    {45678, "45,678"},
                                    {123456, "123,456"},
                                    {7654321, "7,654,321"},
                                    {18446744073709551615u, "18,446,744,073,709,551,615"}}) {
    trigger::Detail line;
    line.AddCount(count);
    CHECK(std::string(line.text()) == text);
  }
}

TEST_CASE("milliseconds and nanoseconds are a million apart, from no time to a day", "[trigger]") {
  CHECK(trigger::Milliseconds(1'500'000) == Approx(1.5));
  CHECK(trigger::Nanoseconds(1.5) == 1'500'000);
  CHECK(trigger::Nanoseconds(0.000001) == 1);
  CHECK(trigger::Nanoseconds(0) == 0);
  CHECK(trigger::Nanoseconds(-3) == 0);
  CHECK(trigger::Nanoseconds(kNan) == 0);
  CHECK(trigger::Nanoseconds(86'400'000) == 86'400'000'000'000);
  CHECK(trigger::Nanoseconds(kInfinity) == 86'400'000'000'000);
}

TEST_CASE("a name of 1 to 120 bytes can be watched, and none watches all", "[trigger]") {
  const std::string longest(120, 'x');

  CHECK(trigger::NameFilter("a").IsUsable());
  CHECK(trigger::NameFilter(longest.c_str()).IsUsable());
  CHECK(trigger::NameFilter(longest.c_str()).Matches(longest.c_str()));
  CHECK(std::string(trigger::NameFilter(longest.c_str()).name()) == longest);
  CHECK_FALSE(trigger::NameFilter(kLongName.c_str()).IsUsable());
  CHECK_FALSE(trigger::NameFilter("").IsUsable());
  CHECK_FALSE(trigger::NameFilter("a").Matches("b"));
  CHECK_FALSE(trigger::NameFilter("a").matches_all());
  CHECK(trigger::NameFilter(nullptr).IsUsable());
  CHECK(trigger::NameFilter(nullptr).matches_all());
  CHECK(trigger::NameFilter(nullptr).Matches("b"));
  CHECK(trigger::NameFilter(nullptr).name() == nullptr);
}

TEST_CASE("a cool-down is over on time, for its slot alone of 64", "[trigger]") {
  fakes::Sink sink;
  trigger::CoolDown cool_down(10, fakes::Clock), none(0, fakes::Clock);
  bool joins_only = false;
  const auto allows = [&](trigger::CoolDown& it, uint32_t slot) { return it.Allows(slot, sink, &joins_only); };
  fakes::Advance(1);

  CHECK(allows(cool_down, 1));
  CHECK_FALSE(joins_only);
  CHECK(allows(cool_down, 2));
  CHECK_FALSE(allows(cool_down, 1));
  CHECK(joins_only);
  CHECK_FALSE(allows(cool_down, 65));  // shares the slot of 1
  CHECK(allows(cool_down, 63));
  CHECK(allows(cool_down, 64));
  sink.may_join = true;
  CHECK(allows(cool_down, 1));
  CHECK(joins_only);
  sink.may_join = false;
  fakes::now_ns += 9'999'999;
  CHECK_FALSE(allows(cool_down, 1));
  fakes::now_ns += 1;
  CHECK(allows(cool_down, 1));
  CHECK_FALSE(joins_only);
  CHECK_FALSE(allows(cool_down, 1));
  CHECK((allows(none, 1) && allows(none, 1) && !joins_only));
}

TEST_CASE("the first wrong option is the one named", "[trigger]") {
  trigger::OptionsCheck check("FooOptions");
  CHECK(check.Take().ok());
  check.Require(true, "right", "is right");
  CHECK(check.Take().ok());
  check.Require(false, "first", "must be one");
  check.Require(false, "second", "must be two");
  check.Require(true, "third", "must be three");

  CHECK(std::string(check.Take().message()) == "FooOptions::first must be one");
  CHECK(check.Take().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("thresholds and windows are accepted to the last value", "[trigger]") {
  const auto is_ok = [](auto ask) {
    trigger::OptionsCheck check("FooOptions");
    ask(check);
    return check.Take().ok();
  };
  const auto threshold = [&](double ms) {
    return is_ok([ms](trigger::OptionsCheck& check) { check.RequireThreshold(ms, "ms"); });
  };
  const auto windows = [&](uint32_t pre_ms, uint32_t post_ms) {
    return is_ok([=](trigger::OptionsCheck& check) { check.RequireWindows(pre_ms, post_ms); });
  };

  CHECK(threshold(0));
  CHECK(threshold(86'400'000));
  CHECK_FALSE(threshold(-0.001));
  CHECK_FALSE(threshold(86'400'000.001));
  CHECK_FALSE(threshold(kNan));
  CHECK_FALSE(threshold(kInfinity));
  CHECK(windows(0, 0));
  CHECK(windows(3'600'000, 60'000));
  CHECK_FALSE(windows(3'600'001, 0));
  CHECK_FALSE(windows(0, 60'001));
}

TEST_CASE("a plain trigger watches nothing and no route", "[trigger]") {
  class Plain final : public Trigger {};
  Plain trigger;

  CHECK_FALSE(trigger.WatchesOpenRequests());
  CHECK_FALSE(trigger.WatchesOpenScopes());
  CHECK(trigger.Route() == nullptr);
}

TEST_CASE("the first and last accepted value of each latency option", "[trigger]") {
  const auto is_ok = [](const LatencyTriggerOptions& options) { return MakeLatencyTrigger(options)->Check().ok(); };

  CHECK(is_ok({.or_above_quantile = 0.5}));
  CHECK(is_ok({.or_above_quantile = 0.9999}));
  CHECK(is_ok({.above_ms = 1, .memory = 64}));
  CHECK(is_ok({.above_ms = 1, .memory = 1'000'000'000}));
  CHECK_FALSE(is_ok({.above_ms = 1, .memory = 1'000'000'001}));
  CHECK(is_ok({.above_ms = 1, .warm_up_requests = 1'000'000'000}));
  CHECK_FALSE(is_ok({.above_ms = 1, .warm_up_requests = 1'000'000'001}));
  CHECK(is_ok({.above_ms = 1, .k = 2, .n = 2}));
  CHECK(is_ok({.above_ms = 0.001, .or_above_quantile = 0.9}));
}

TEST_CASE("either threshold of a tokens or a stall trigger is enough", "[trigger]") {
  CHECK(MakeTokensTrigger({.first_token_above_ms = 1})->Check().ok());
  CHECK(MakeTokensTrigger({.gap_above_ms = 1})->Check().ok());
  CHECK(MakeTokensTrigger({.first_token_above_ms = 1, .gap_above_ms = 1})->Check().ok());
  CHECK(MakeStallTrigger({.request_open_ms = 1})->Check().ok());
  CHECK(MakeStallTrigger({.scope_open_ms = 1})->Check().ok());
  CHECK(MakeStallTrigger({.request_open_ms = 1, .scope_open_ms = 1})->Check().ok());
}

TEST_CASE("a trigger whose options contradict each other does not fire when it is asked anyway", "[trigger]") {
  fakes::Sink sink;
  const auto latency = MakeLatencyTrigger({.above_ms = 1, .k = 2, .n = 1});
  const auto drift = MakeDriftTrigger({.recent_requests = 0, .reference_requests = 0});

  for (int i = 0; i < 1000; ++i) {
    latency->OnFinish(fakes::Request(5), sink);
    drift->OnFinish(fakes::Request(i < 500 ? 5 : 50), sink);
  }

  CHECK_FALSE(latency->Check().ok());
  CHECK_FALSE(drift->Check().ok());
  CHECK(std::none_of(sink.fired.begin(), sink.fired.end(),
                     [](const fakes::Fired& fired) { return fired.cause.find("latency") == 0; }));
}
