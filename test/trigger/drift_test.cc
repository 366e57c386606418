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
