// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "trigger/fakes.h"
#include "trigger/make.h"

using fakes::Advance;
using fakes::Request;
using pitot::trigger::MakeTokens;

namespace {

pitot::RequestView Marked(double so_far_ms, double first_token_ms, uint32_t tokens) {
  pitot::RequestView request = Request(so_far_ms, "/generate", 3);
  request.first_token_ns = static_cast<uint64_t>(first_token_ms * 1e6);
  request.output_tokens = tokens;
  return request;
}

}  // namespace

TEST_CASE("a late first token fires and a timely one does not", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeTokens({.first_token_above_ms = 200}, fakes::Clock);

  trigger->OnTokens(Marked(200, 200, 1), 200000000, sink);
  CHECK(sink.fired.empty());
  trigger->OnTokens(Marked(250, 250, 1), 250000000, sink);

  REQUIRE(sink.fired.size() == 1);
  CHECK(sink.fired[0].cause == "first_token /generate");
  CHECK(sink.fired[0].detail == "first token after 250.0 ms, above 200.0 ms");
}

TEST_CASE("a gap between tokens fires, and the time to the first token is not a gap", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeTokens({.gap_above_ms = 50}, fakes::Clock);

  trigger->OnTokens(Marked(300, 300, 1), 300000000, sink);
  trigger->OnTokens(Marked(350, 300, 2), 50000000, sink);
  CHECK(sink.fired.empty());
  trigger->OnTokens(Marked(410, 300, 3), 60000000, sink);

  REQUIRE(sink.fired.size() == 1);
  CHECK(sink.fired[0].cause == "token_gap /generate");
  CHECK(sink.fired[0].detail == "60.0 ms between tokens, above 50.0 ms, 3 tokens into the request");
}

TEST_CASE("a tokens trigger keeps to its route and cools down", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeTokens({.route = "/generate", .gap_above_ms = 50}, fakes::Clock);
  auto other = MakeTokens({.route = "/other", .gap_above_ms = 50}, fakes::Clock);

  for (int i = 0; i < 3; ++i) trigger->OnTokens(Marked(410, 300, 3), 60000000, sink);
  other->OnTokens(Marked(410, 300, 3), 60000000, sink);
  CHECK(sink.fired.size() == 1);
  Advance(1000);
  trigger->OnTokens(Marked(410, 300, 3), 60000000, sink);

  CHECK(sink.fired.size() == 2);
}

TEST_CASE("a tokens trigger watches only what has a threshold", "[trigger]") {
  fakes::Sink sink;
  auto first = MakeTokens({.first_token_above_ms = 200, .cool_down_ms = 0}, fakes::Clock);
  auto gaps = MakeTokens({.gap_above_ms = 50, .cool_down_ms = 0}, fakes::Clock);

  first->OnTokens(Marked(900, 100, 2), 800'000'000, sink);
  gaps->OnTokens(Marked(900, 900, 1), 900'000'000, sink);

  CHECK(sink.fired.empty());
}

TEST_CASE("a token gap fires from the first nanosecond above the threshold on", "[trigger]") {
  fakes::Sink sink;
  auto trigger =
      MakeTokens({.gap_above_ms = 50, .cool_down_ms = 0, .pre_window_ms = 5, .post_window_ms = 6}, fakes::Clock);

  trigger->OnTokens(Marked(350, 300, 2), 50'000'000, sink);
  CHECK(sink.fired.empty());
  trigger->OnTokens(Marked(350, 300, 2), 50'000'001, sink);

  REQUIRE(sink.fired.size() == 1);
  CHECK(sink.fired[0].pre_window_ms == 5);
  CHECK(sink.fired[0].post_window_ms == 6);
  CHECK_FALSE(sink.fired[0].joins_only);
}

TEST_CASE("a tokens trigger names its route", "[trigger]") {
  CHECK(std::string(MakeTokens({.route = "/a", .gap_above_ms = 1}, fakes::Clock)->Route()) == "/a");
  CHECK(MakeTokens({.gap_above_ms = 1}, fakes::Clock)->Route() == nullptr);
}

TEST_CASE("a gap above the quantile of its route's gaps fires", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeTokens({.gap_or_above_quantile = 0.9, .warm_up_marks = 100}, fakes::Clock);
  REQUIRE(trigger->Check().ok());
  const auto gap = [&](double ms) {
    Advance(1000);
    trigger->OnTokens(Marked(900, 100, 7), static_cast<uint64_t>(ms * 1e6), sink);
  };

  gap(500);  // nothing is known yet
  for (int i = 1; i < 100; ++i) gap(20 + 0.01 * i);
  CHECK(sink.fired.empty());
  trigger->OnTokens(Marked(900, 900, 1), 900'000'000, sink);  // a first token is not a gap
  gap(20);
  CHECK(sink.fired.empty());
  gap(60);

  REQUIRE(sink.fired.size() == 1);
  CHECK(sink.fired[0].cause == "token_gap /generate");
  CHECK(sink.fired[0].detail.find("60.0 ms between tokens, above p90 = 21.") == 0);
  CHECK(sink.fired[0].detail.find(" ms of 100 of its route, 7 tokens into the request") != std::string::npos);
}

TEST_CASE("a first token above the quantile of those of its route and size fires", "[trigger]") {
  fakes::Sink sink;
  auto trigger = MakeTokens({.first_token_or_above_quantile = 0.5, .memory = 1000, .warm_up_marks = 64}, fakes::Clock);
  const auto first = [&](uint32_t size_bucket, double ms) {
    pitot::RequestView request = Marked(ms, ms, 1);
    request.size_bucket = size_bucket;
    trigger->OnTokens(request, request.first_token_ns, sink);
  };

  for (int i = 0; i < 64; ++i) first(3, 100), first(9, 2000);
  first(9, 1990);
  CHECK(sink.fired.empty());
  first(3, 1990);

  REQUIRE(sink.fired.size() == 1);
  CHECK(sink.fired[0].cause == "first_token /generate");
  CHECK(sink.fired[0].detail.find("first token after 1990.0 ms, above p50 = 10") == 0);
  CHECK(sink.fired[0].detail.find(" of its route and size") != std::string::npos);
}

TEST_CASE("a tokens trigger's quantiles are checked", "[trigger]") {
  CHECK(std::string(MakeTokens({}, fakes::Clock)->Check().message()) ==
        "TokensTriggerOptions::first_token_above_ms or another threshold must be set");
  CHECK(std::string(MakeTokens({.gap_or_above_quantile = 0.4}, fakes::Clock)->Check().message()) ==
        "TokensTriggerOptions::gap_or_above_quantile must be 0 (not watched) or 0.5 to 0.9999");
  CHECK(std::string(MakeTokens({.gap_or_above_quantile = 0.9, .memory = 1}, fakes::Clock)->Check().message()) ==
        "TokensTriggerOptions::memory must be 64 to 1,000,000,000");
}
