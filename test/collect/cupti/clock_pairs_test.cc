// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/clock_pairs.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>

namespace {

using pitot::cupti::ClockPair;
using pitot::cupti::ClockPairs;
using pitot::cupti::Conversion;
using pitot::cupti::Stamper;

constexpr int64_t kEpoch = 1'800'000'000'000'000'000;
constexpr int64_t kSecond = 1'000'000'000, kMs = 1'000'000, kUs = 1000;

Conversion Convert(const ClockPairs& pairs, int64_t cupti_ns, Stamper by, int64_t* ns) {
  return pairs.ToMonotonic(static_cast<uint64_t>(cupti_ns), by, ns);
}
Conversion HowOf(const ClockPairs& pairs, int64_t cupti_ns, Stamper by = Stamper::kHost) {
  int64_t ns = 0;
  return Convert(pairs, cupti_ns, by, &ns);
}
int64_t At(const ClockPairs& pairs, int64_t cupti_ns, Stamper by = Stamper::kHost) {
  int64_t ns = -1;
  const Conversion how = Convert(pairs, cupti_ns, by, &ns);
  return how == Conversion::kByRealtime || how == Conversion::kByCycles ? ns : -1;
}

// Readings every 20 ms of [0, 3 s], of a clock stepped between the readings at 1 s and 1.02 s.
ClockPairs Stepped(int64_t by_ns) {
  ClockPairs pairs;
  for (int64_t at = 0; at <= 3 * kSecond; at += 20 * kMs) {
    const int64_t told = pairs.Add({kEpoch + at + (at > kSecond ? by_ns : 0), at});
    CHECK(told == (at == kSecond + 20 * kMs ? by_ns : 0));
  }
  return pairs;
}

}  // namespace

TEST_CASE("a slewed clock converts in proportion between two readings, outside by the nearest", "[cupti]") {
  ClockPairs pairs;
  pairs.Add({kEpoch, 1000});
  CHECK(pairs.Add({kEpoch + kSecond / 10, 1000 + kSecond / 10 + 40'000}) == 0);  // 400 ppm slow
  CHECK(At(pairs, kEpoch) == 1000);
  CHECK(At(pairs, kEpoch + kSecond / 20) == 1000 + kSecond / 20 + 20'000);
  CHECK(At(pairs, kEpoch - 500) == 500);
  CHECK(At(pairs, kEpoch + kSecond / 10 + 700) == 1000 + kSecond / 10 + 40'700);
}

TEST_CASE("every stamp of a clock stepped forward has one place", "[cupti]") {
  const int64_t step = 1500 * kMs;
  const ClockPairs pairs = Stepped(step);
  CHECK(At(pairs, kEpoch) == 0);
  CHECK(At(pairs, kEpoch + 500 * kMs) == 500 * kMs);
  // Between the readings next to the step, on either side of it.
  CHECK(At(pairs, kEpoch + 1001 * kMs) == 1001 * kMs);
  CHECK(At(pairs, kEpoch + 1019 * kMs) == 1019 * kMs);
  CHECK(At(pairs, kEpoch + 1001 * kMs + step) == 1001 * kMs);
  CHECK(At(pairs, kEpoch + 1019 * kMs + step) == 1019 * kMs);
  CHECK(At(pairs, kEpoch + 2 * kSecond + step) == 2 * kSecond);
  CHECK(At(pairs, kEpoch + 3 * kSecond + step) == 3 * kSecond);
}

TEST_CASE("a skipped time of the clock is nowhere", "[cupti]") {
  const ClockPairs pairs = Stepped(1500 * kMs);
  CHECK(HowOf(pairs, kEpoch + 1100 * kMs) == Conversion::kNotPlaced);
  CHECK(HowOf(pairs, kEpoch + 2400 * kMs) == Conversion::kNotPlaced);
}

TEST_CASE("a stamp made twice by a clock stepped back has no place, and one made once has", "[cupti]") {
  const int64_t step = -500 * kMs;
  const ClockPairs pairs = Stepped(step);
  // It showed 0.5 to 1.02 s before the step and again after it.
  CHECK(At(pairs, kEpoch + 498 * kMs) == 498 * kMs);
  CHECK(HowOf(pairs, kEpoch + 502 * kMs) == Conversion::kNotPlaced);
  CHECK(HowOf(pairs, kEpoch + 1 * kSecond) == Conversion::kNotPlaced);
  CHECK(HowOf(pairs, kEpoch + 1500 * kMs + step) == Conversion::kNotPlaced);
  CHECK(HowOf(pairs, kEpoch + 1019 * kMs) == Conversion::kNotPlaced);
  CHECK(At(pairs, kEpoch + 1022 * kMs) == 1522 * kMs);
  CHECK(At(pairs, kEpoch + 3 * kSecond + step) == 3 * kSecond);
}

TEST_CASE("a step back longer than the kept readings leaves every stamp a place", "[cupti]") {
  const int64_t step = -3600 * kSecond;
  const ClockPairs pairs = Stepped(step);
  CHECK(At(pairs, kEpoch) == 0);
  CHECK(At(pairs, kEpoch + 1 * kSecond) == 1 * kSecond);
  CHECK(At(pairs, kEpoch + 1019 * kMs + step) == 1019 * kMs);
  CHECK(At(pairs, kEpoch + 3 * kSecond + step) == 3 * kSecond);
}

TEST_CASE("no stamp lands later than now because the clock was stepped back", "[cupti]") {
  ClockPairs pairs;
  pairs.Add({kEpoch, 0});
  pairs.Add({kEpoch + kSecond, kSecond});
  CHECK(pairs.Add({kEpoch + kSecond / 2, kSecond + 20 * kMs}) == -520 * kMs);
  // As a stamp from after the step it would be at 1.42 s.
  CHECK(At(pairs, kEpoch + 900 * kMs) == 900 * kMs);
}

TEST_CASE("the GPU's work of the 12 s after a step has no place: CUPTI errs about it", "[cupti]") {
  for (const int64_t step : {1500 * kMs, -500 * kMs, -3600 * kSecond}) {
    ClockPairs pairs = Stepped(step);
    CHECK(At(pairs, kEpoch + 3 * kSecond + step, Stamper::kHost) == 3 * kSecond);
    CHECK(HowOf(pairs, kEpoch + 3 * kSecond + step, Stamper::kGpu) == Conversion::kNotPlaced);
    CHECK(HowOf(pairs, kEpoch + 100 * kMs, Stamper::kGpu) == Conversion::kNotPlaced);
    for (int64_t at = 3 * kSecond; at <= 14 * kSecond; at += 20 * kMs) pairs.Add({kEpoch + at + step, at});
    CHECK(HowOf(pairs, kEpoch + 3 * kSecond + step, Stamper::kGpu) == Conversion::kNotPlaced);
    CHECK(HowOf(pairs, kEpoch + 13 * kSecond + step, Stamper::kGpu) == Conversion::kNotPlaced);
    CHECK(At(pairs, kEpoch + 13'100 * kMs + step, Stamper::kGpu) == 13'100 * kMs);
    CHECK(At(pairs, kEpoch + 100 * kMs, Stamper::kGpu) == 100 * kMs);
  }
}

TEST_CASE("another step before CUPTI was right again takes as long again", "[cupti]") {
  ClockPairs pairs;
  for (int64_t at = 0; at <= 30 * kSecond; at += 20 * kMs) {
    pairs.Add({kEpoch + at + (at > kSecond ? 100 * kSecond : 0) + (at > 6 * kSecond ? 100 * kSecond : 0), at});
    if (at == 18 * kSecond) CHECK(HowOf(pairs, kEpoch + at + 200 * kSecond, Stamper::kGpu) == Conversion::kNotPlaced);
  }
  CHECK(HowOf(pairs, kEpoch + 5 * kSecond + 100 * kSecond, Stamper::kGpu) == Conversion::kNotPlaced);
  CHECK(HowOf(pairs, kEpoch + 17 * kSecond + 200 * kSecond, Stamper::kGpu) == Conversion::kNotPlaced);
  CHECK(At(pairs, kEpoch + 19 * kSecond + 200 * kSecond, Stamper::kGpu) == 19 * kSecond);
}

TEST_CASE("CUPTI errs no more about a step of less than 1 ms than without one", "[cupti]") {
  const ClockPairs pairs = Stepped(600 * kUs);
  CHECK(At(pairs, kEpoch + 3 * kSecond + 600 * kUs, Stamper::kGpu) == 3 * kSecond);
  CHECK(At(pairs, kEpoch + 500 * kMs, Stamper::kGpu) == 500 * kMs);
}

TEST_CASE("a time later than the last reading, beyond CUPTI's error, is invalid", "[cupti]") {
  ClockPairs pairs;
  pairs.Add({kEpoch, 0, 1'000'000});
  pairs.Add({kEpoch + kSecond, kSecond, 1'000'000 + 2 * kSecond});
  CHECK(At(pairs, kEpoch + kSecond + 900 * kUs) == kSecond + 900 * kUs);
  CHECK(HowOf(pairs, kEpoch + kSecond + 2 * kMs) == Conversion::kNoTime);
  CHECK(At(pairs, 1'000'000 + 2 * (kSecond + 900 * kUs)) == kSecond + 900 * kUs);
  CHECK(HowOf(pairs, 1'000'000 + 2 * (kSecond + 2 * kMs)) == Conversion::kNoTime);
  // As much later as the reading itself is uncertain.
  pairs.Add({kEpoch + 2 * kSecond, 2 * kSecond, 0, 5 * kMs});
  CHECK(At(pairs, kEpoch + 2 * kSecond + 4 * kMs) == 2 * kSecond + 4 * kMs);
}

TEST_CASE("a change explained by slewing, uncertain readings or 50 us is not a step", "[cupti]") {
  ClockPairs pairs;
  pairs.Add({kEpoch, 0});
  CHECK(pairs.Add({kEpoch + 20 * kMs + 40 * kUs, 20 * kMs}) == 0);
  CHECK(pairs.Add({kEpoch + 40 * kMs, 40 * kMs}) == 0);
  CHECK(At(pairs, kEpoch + 30 * kMs) != -1);
  // The thread was kept from reading for ten seconds of slewing by 400 ppm.
  CHECK(pairs.Add({kEpoch + 10'040 * kMs + 4 * kMs, 10'040 * kMs}) == 0);
  CHECK(pairs.Add({kEpoch + 10'060 * kMs + 4 * kMs + 300 * kUs, 10'060 * kMs, 0, 300 * kUs}) == 0);
  CHECK(pairs.Add({kEpoch + 10'080 * kMs + 4 * kMs, 10'080 * kMs}) == 0);
  CHECK(pairs.Add({kEpoch + 10'100 * kMs + 4 * kMs + 100 * kUs, 10'100 * kMs}) == 100 * kUs);
}

TEST_CASE("each of two steps converts by the readings on its sides", "[cupti]") {
  ClockPairs pairs;
  pairs.Add({kEpoch, 0});
  pairs.Add({kEpoch + kSecond, kSecond});
  CHECK(pairs.Add({kEpoch + 102 * kSecond, 2 * kSecond}) == 100 * kSecond);
  CHECK(pairs.Add({kEpoch + 53 * kSecond, 3 * kSecond}) == -50 * kSecond);
  pairs.Add({kEpoch + 54 * kSecond, 4 * kSecond});
  CHECK(At(pairs, kEpoch + kSecond / 2) == kSecond / 2);
  CHECK(At(pairs, kEpoch + 102 * kSecond) == 2 * kSecond);
  CHECK(At(pairs, kEpoch + 102 * kSecond + kSecond / 2) == 2 * kSecond + kSecond / 2);
  CHECK(At(pairs, kEpoch + 53 * kSecond + kSecond / 2) == 3 * kSecond + kSecond / 2);
}

TEST_CASE("there is no other side once no reading before a step is kept", "[cupti]") {
  ClockPairs pairs = Stepped(-500 * kMs);
  CHECK(HowOf(pairs, kEpoch + 1 * kSecond) == Conversion::kNotPlaced);
  for (int64_t at = 3 * kSecond; at < 60 * kSecond; at += 20 * kMs) pairs.Add({kEpoch + at - 500 * kMs, at});
  CHECK(At(pairs, kEpoch + 59 * kSecond) == 59 * kSecond + 500 * kMs);
  CHECK(At(pairs, kEpoch + 1 * kSecond) == 1500 * kMs);
}

TEST_CASE("a number that is not a time of the wall clock converts to nothing", "[cupti]") {
  ClockPairs pairs;
  CHECK(HowOf(pairs, kEpoch) == Conversion::kNoTime);
  pairs.Add({kEpoch, 1000});
  CHECK(HowOf(pairs, 123'456'789) == Conversion::kNoTime);  // there is no counter
  CHECK(HowOf(pairs, -1) == Conversion::kNoTime);
  CHECK(HowOf(pairs, kEpoch) == Conversion::kByRealtime);
}

TEST_CASE("cycles of the counter convert, too: PyTorch's profiler makes CUPTI stamp with them", "[cupti]") {
  ClockPairs pairs;
  pairs.Add({kEpoch, 1000, 1'000'000});
  CHECK(HowOf(pairs, 1'000'000) == Conversion::kNoTime);  // the length of a cycle is unknown yet
  pairs.Add({kEpoch + kSecond, 1000 + kSecond, 1'000'000 + 2 * kSecond});
  CHECK(HowOf(pairs, 1'000'000 + 2 * kSecond) == Conversion::kByCycles);
  CHECK(At(pairs, 1'000'000 + 2 * kSecond) == 1000 + kSecond);
  CHECK(At(pairs, 1'000'000 + kSecond) == 1000 + kSecond / 2);
  CHECK(At(pairs, 1'000'000 + 2 * kSecond + 200) == 1000 + kSecond + 100);
  CHECK(HowOf(pairs, 1'000'000 + 1'000 * kSecond) == Conversion::kNoTime);
}

TEST_CASE("cycles are not affected by a step", "[cupti]") {
  ClockPairs pairs;
  pairs.Add({kEpoch, 0, 1'000'000});
  pairs.Add({kEpoch + kSecond, kSecond, 1'000'000 + 2 * kSecond});
  CHECK(pairs.Add({kEpoch, 2 * kSecond, 1'000'000 + 4 * kSecond}) == -2 * kSecond);
  for (const Stamper by : {Stamper::kHost, Stamper::kGpu}) {
    for (int64_t at = 0; at <= 2 * kSecond; at += kSecond / 10) CHECK(At(pairs, 1'000'000 + 2 * at, by) == at);
  }
}

TEST_CASE("a reading of both clocks is of one moment", "[cupti]") {
  const ClockPair a = pitot::cupti::ReadClockPair(), b = pitot::cupti::ReadClockPair();
  CHECK(b.monotonic_ns > a.monotonic_ns);
  CHECK(a.error_ns > 0);
  CHECK(std::llabs((b.realtime_ns - a.realtime_ns) - (b.monotonic_ns - a.monotonic_ns)) < kSecond / 100);
}

TEST_CASE("conversions err as far as the worst kept reading", "[cupti]") {
  ClockPairs pairs;
  CHECK(pairs.MostErrorNs() == 0);
  for (int64_t i = 0; i <= 300; ++i)
    pairs.Add({kEpoch + i * kSecond, i * kSecond, 0, i == 0 ? 900 : i == 200 ? 700 : 60});
  CHECK(pairs.MostErrorNs() == 700);  // the first has given way
}

TEST_CASE("enough readings are kept for stamps still on their way", "[cupti]") {
  // Whatever the time between readings: the clock drifts for 20 s and stops drifting.
  for (const int64_t apart : {1 * kMs, 20 * kMs, 100 * kMs}) {
    ClockPairs pairs;
    const auto drift = [](int64_t at) { return std::min(at, 20 * kSecond) / 10'000; };
    for (int64_t at = 0; at <= 40 * kSecond; at += apart) pairs.Add({kEpoch + at, at + drift(at)});
    for (const int64_t at : {16 * kSecond, 19 * kSecond, 21 * kSecond, 40 * kSecond}) {
      CHECK(std::llabs(At(pairs, kEpoch + at) - (at + drift(at))) <= 10);
    }
  }
}
