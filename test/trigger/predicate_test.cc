// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <string>

#include "trigger/fakes.h"
#include "trigger/make.h"

using fakes::Advance;
using fakes::Request;
using pitot::RequestView;
using pitot::trigger::MakePredicate;

TEST_CASE("the host's predicate decides, with its context", "[trigger]") {
  fakes::Sink sink;
  uint32_t wanted_bucket = 9;
  auto trigger = MakePredicate(
      {.predicate = [](void* context,
                       const RequestView& request) { return request.size_bucket == *static_cast<uint32_t*>(context); },
       .context = &wanted_bucket,
       .cause = "big",
       .pre_window_ms = 3,
       .post_window_ms = 4},
      fakes::Clock);

  trigger->OnFinish(Request(5, "/classify", 1, 8), sink);
  CHECK(sink.fired.empty());
  trigger->OnFinish(Request(5, "/classify", 1, 9), sink);

  REQUIRE(sink.fired.size() == 1);
  CHECK(sink.fired[0].request == 7);
  CHECK(sink.fired[0].cause == "big");
  CHECK(sink.fired[0].detail == "/classify, ok after 5.0 ms");
  CHECK(sink.fired[0].pre_window_ms == 3);
  CHECK(sink.fired[0].post_window_ms == 4);
}

TEST_CASE("a predicate cools down as a whole and its cause is copied", "[trigger]") {
  fakes::Sink sink;
  std::string cause = "tenant a";
  auto trigger = MakePredicate({.predicate = [](void*, const RequestView&) { return true; }, .cause = cause.c_str()},
                               fakes::Clock);
  cause = "overwritten";

  trigger->OnFinish(Request(5, "/a", 1), sink);
  trigger->OnFinish(Request(5, "/b", 2), sink);
  CHECK(sink.fired.size() == 1);
  Advance(1000);
  trigger->OnFinish(Request(5, "/b", 2), sink);

  REQUIRE(sink.fired.size() == 2);
  CHECK(sink.fired[1].cause == "tenant a");
}

TEST_CASE("a throwing predicate is not asked again and harms nobody", "[trigger]") {
  fakes::Sink sink;
  int asked = 0;
  auto trigger = MakePredicate({.predicate = [](void* context, const RequestView&) -> bool {
                                  ++*static_cast<int*>(context);
                                  throw 1;
                                },
                                .context = &asked},
                               fakes::Clock);

  trigger->OnFinish(Request(5), sink);
  trigger->OnFinish(Request(5), sink);

  CHECK(asked == 1);
  CHECK(sink.fired.empty());
}

TEST_CASE("a request that the predicate refuses does not begin the cool-down", "[trigger]") {
  fakes::Sink sink;
  bool answer = false;
  auto trigger = MakePredicate(
      {.predicate = [](void* context, const RequestView&) { return *static_cast<bool*>(context); }, .context = &answer},
      fakes::Clock);

  trigger->OnFinish(Request(5), sink);
  CHECK(sink.fired.empty());
  answer = true;
  trigger->OnFinish(Request(5), sink);

  REQUIRE(sink.fired.size() == 1);
  CHECK(sink.fired[0].cause == "predicate");
  CHECK_FALSE(sink.fired[0].joins_only);
}

TEST_CASE("a predicate's cause may be 120 bytes long", "[trigger]") {
  fakes::Sink sink;
  const std::string longest(120, 'x');
  auto trigger = MakePredicate({.predicate = [](void*, const RequestView&) { return true; }, .cause = longest.c_str()},
                               fakes::Clock);

  CHECK(trigger->Check().ok());
  trigger->OnFinish(Request(5), sink);
  CHECK(sink.fired.at(0).cause == longest);
}
