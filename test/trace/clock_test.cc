// SPDX-License-Identifier: Apache-2.0
#include "trace/clock.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "fakes/virtual_clock.h"
#include "pitot/trace.h"
#include "session/calibrate.h"

namespace {
using pitot::ClockSource;
using pitot::trace::ClockMap;
using pitot::trace::ClockReading;
}  // namespace

TEST_CASE("ticks become nanoseconds exactly at both readings and in proportion around them", "[clock]") {
  ClockMap map;
  map.first.ticks = 1'000'000;
  map.first.monotonic_ns = 5'000;
  map.last.ticks = 4'000'000;
  map.last.monotonic_ns = 1'505'000;

  CHECK(map.Ns(1'000'000) == 5'000);
  CHECK(map.Ns(4'000'000) == 1'505'000);
  CHECK(map.Ns(2'000'000) == 505'000);
  CHECK(map.Ns(5'000'000) == 2'005'000);
  CHECK(map.Ns(998'000) == 4'000);
  CHECK(map.TicksPerNs() == Approx(2.0));
}

TEST_CASE("readings a month apart convert without overflow", "[clock]") {
  ClockMap map;
  map.first.ticks = uint64_t{1} << 50;
  map.first.monotonic_ns = 1;
  map.last.ticks = map.first.ticks + uint64_t{3'000'000'000} * 86'400 * 30;
  map.last.monotonic_ns = 1 + int64_t{1'000'000'000} * 86'400 * 30;

  CHECK(map.Ns(map.last.ticks - 3'000) == map.last.monotonic_ns - 1'000);
  CHECK(map.Ns(map.first.ticks + 3'000) == 1'001);
}

TEST_CASE("a clock that did not advance between two readings counts a tick as a nanosecond", "[clock]") {
  ClockMap map;
  map.first.ticks = map.last.ticks = 100;
  map.first.monotonic_ns = map.last.monotonic_ns = 100;

  CHECK(map.Ns(150) == 150);
  CHECK(map.TicksPerNs() == 1.0);
}

TEST_CASE("the operating system's clock is always available, the counter only if it is invariant", "[clock]") {
  const char* why_not = nullptr;
  const bool invariant = pitot::trace::CycleCounterIsInvariant(&why_not);
  bool available = false;

  CHECK(pitot::trace::NeedsSlowClock(ClockSource::kOperatingSystem, &available));
  CHECK(available);
  CHECK(pitot::trace::NeedsSlowClock(ClockSource::kCycleCounter, &available) == !invariant);
  CHECK(available == invariant);
  CHECK(pitot::trace::NeedsSlowClock(ClockSource::kAuto, &available) == !invariant);
  CHECK(available);
  REQUIRE(why_not != nullptr);
  CHECK(std::string(why_not).empty() == invariant);
}

TEST_CASE("the calibrated counter agrees with the system's clock", "[clock]") {
  bool available = false;
  if (pitot::trace::NeedsSlowClock(ClockSource::kAuto, &available)) {
    WARN("this machine's counter is not invariant: not tested");
    return;
  }
  const ClockReading start = pitot::session::CalibrateTicks(false);
  const int64_t before = pitot::trace::MonotonicNs();
  const uint64_t ticks = pitot::trace::NowTicks(false);
  const int64_t after = pitot::trace::MonotonicNs();

  const int64_t ns = ClockMap{start, pitot::trace::ReadClocks(false)}.Ns(ticks);

  CHECK(ns >= before - 2'000);
  CHECK(ns <= after + 2'000);
  CHECK(pitot::detail::TicksOf(1'000'000'000) > 1'000'000);
}

TEST_CASE("events are stamped with a clock under test", "[clock]") {
  fakes::VirtualClock clock(42);
  bool available = false;

  CHECK(pitot::trace::NeedsSlowClock(ClockSource::kAuto, &available));
  CHECK(pitot::trace::NowTicks(true) == 42);
  clock.Advance(8);
  CHECK(pitot::trace::NowTicks(true) == 50);
  CHECK(pitot::trace::ReadClocks(true).monotonic_ns == 50);
}
