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

// Readings every 20 ms of [0, 3 s], of a clock that was stepped between those of 1 s and 1.02 s.
ClockPairs Stepped(int64_t by_ns) {
  ClockPairs pairs;
  for (int64_t at = 0; at <= 3 * kSecond; at += 20 * kMs) {
    const int64_t told = pairs.Add({kEpoch + at + (at > kSecond ? by_ns : 0), at});
    CHECK(told == (at == kSecond + 20 * kMs ? by_ns : 0));
  }
  return pairs;
}

}  // namespace

TEST_CASE("between two readings a slewed clock converts in proportion, outside as the nearest says", "[cupti]") {
  ClockPairs pairs;
  pairs.Add({kEpoch, 1000});
  CHECK(pairs.Add({kEpoch + kSecond / 10, 1000 + kSecond / 10 + 40'000}) == 0);  // 400 ppm slow
  CHECK(At(pairs, kEpoch) == 1000);
  CHECK(At(pairs, kEpoch + kSecond / 20) == 1000 + kSecond / 20 + 20'000);
  CHECK(At(pairs, kEpoch - 500) == 500);
  CHECK(At(pairs, kEpoch + kSecond / 10 + 700) == 1000 + kSecond / 10 + 40'700);
}

TEST_CASE("what a clock that was stepped forward stamped has one place", "[cupti]") {
  const int64_t step = 1500 * kMs;
  const ClockPairs pairs = Stepped(step);
  CHECK(At(pairs, kEpoch) == 0);
  CHECK(At(pairs, kEpoch + 500 * kMs) == 500 * kMs);
  // Between the readings beside the step, on either side of it.
  CHECK(At(pairs, kEpoch + 1001 * kMs) == 1001 * kMs);
  CHECK(At(pairs, kEpoch + 1019 * kMs) == 1019 * kMs);
  CHECK(At(pairs, kEpoch + 1001 * kMs + step) == 1001 * kMs);
  CHECK(At(pairs, kEpoch + 1019 * kMs + step) == 1019 * kMs);
  CHECK(At(pairs, kEpoch + 2 * kSecond + step) == 2 * kSecond);
  CHECK(At(pairs, kEpoch + 3 * kSecond + step) == 3 * kSecond);
}

TEST_CASE("a time that the clock skipped is nowhere", "[cupti]") {
  const ClockPairs pairs = Stepped(1500 * kMs);
  CHECK(HowOf(pairs, kEpoch + 1100 * kMs) == Conversion::kNotPlaced);
  CHECK(HowOf(pairs, kEpoch + 2400 * kMs) == Conversion::kNotPlaced);
}

TEST_CASE("what a clock that was stepped back stamped twice has no place, and what it stamped once has", "[cupti]") {
  const int64_t step = -500 * kMs;
  const ClockPairs pairs = Stepped(step);
  // It said 0.5 to 1.02 s before the step and again after it.
  CHECK(At(pairs, kEpoch + 498 * kMs) == 498 * kMs);
  CHECK(HowOf(pairs, kEpoch + 502 * kMs) == Conversion::kNotPlaced);
  CHECK(HowOf(pairs, kEpoch + 1 * kSecond) == Conversion::kNotPlaced);
  CHECK(HowOf(pairs, kEpoch + 1500 * kMs + step) == Conversion::kNotPlaced);
  CHECK(HowOf(pairs, kEpoch + 1019 * kMs) == Conversion::kNotPlaced);
  CHECK(At(pairs, kEpoch + 1022 * kMs) == 1522 * kMs);
  CHECK(At(pairs, kEpoch + 3 * kSecond + step) == 3 * kSecond);
}

TEST_CASE("a step back that is longer than what is kept leaves a place to all", "[cupti]") {
  const int64_t step = -3600 * kSecond;
  const ClockPairs pairs = Stepped(step);
  CHECK(At(pairs, kEpoch) == 0);
  CHECK(At(pairs, kEpoch + 1 * kSecond) == 1 * kSecond);
  CHECK(At(pairs, kEpoch + 1019 * kMs + step) == 1019 * kMs);
  CHECK(At(pairs, kEpoch + 3 * kSecond + step) == 3 * kSecond);
}

TEST_CASE("nothing lands later than now because the clock was stepped back", "[cupti]") {
  ClockPairs pairs;
  pairs.Add({kEpoch, 0});
  pairs.Add({kEpoch + kSecond, kSecond});
  CHECK(pairs.Add({kEpoch + kSecond / 2, kSecond + 20 * kMs}) == -520 * kMs);
  // As if stamped after the step it would be of 1.42 s.
  CHECK(At(pairs, kEpoch + 900 * kMs) == 900 * kMs);
}

TEST_CASE("for 12 s after a step what the GPU did has no place: CUPTI errs about it", "[cupti]") {
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

TEST_CASE("another step before CUPTI was right again takes it as long again", "[cupti]") {
  ClockPairs pairs;
  for (int64_t at = 0; at <= 30 * kSecond; at += 20 * kMs) {
    pairs.Add({kEpoch + at + (at > kSecond ? 100 * kSecond : 0) + (at > 6 * kSecond ? 100 * kSecond : 0), at});
    if (at == 18 * kSecond) CHECK(HowOf(pairs, kEpoch + at + 200 * kSecond, Stamper::kGpu) == Conversion::kNotPlaced);
  }
  CHECK(HowOf(pairs, kEpoch + 5 * kSecond + 100 * kSecond, Stamper::kGpu) == Conversion::kNotPlaced);
  CHECK(HowOf(pairs, kEpoch + 17 * kSecond + 200 * kSecond, Stamper::kGpu) == Conversion::kNotPlaced);
  CHECK(At(pairs, kEpoch + 19 * kSecond + 200 * kSecond, Stamper::kGpu) == 19 * kSecond);
}

TEST_CASE("about a step of less than 1 ms CUPTI errs no more than without one", "[cupti]") {
  const ClockPairs pairs = Stepped(600 * kUs);
  CHECK(At(pairs, kEpoch + 3 * kSecond + 600 * kUs, Stamper::kGpu) == 3 * kSecond);
  CHECK(At(pairs, kEpoch + 500 * kMs, Stamper::kGpu) == 500 * kMs);
}

TEST_CASE("a time later than the last reading is none, beyond what CUPTI errs by", "[cupti]") {
  ClockPairs pairs;
  pairs.Add({kEpoch, 0, 1'000'000});
  pairs.Add({kEpoch + kSecond, kSecond, 1'000'000 + 2 * kSecond});
  CHECK(At(pairs, kEpoch + kSecond + 900 * kUs) == kSecond + 900 * kUs);
  CHECK(HowOf(pairs, kEpoch + kSecond + 2 * kMs) == Conversion::kNoTime);
  CHECK(At(pairs, 1'000'000 + 2 * (kSecond + 900 * kUs)) == kSecond + 900 * kUs);
  CHECK(HowOf(pairs, 1'000'000 + 2 * (kSecond + 2 * kMs)) == Conversion::kNoTime);
  // Where the reading itself is uncertain it may be as much later.
  pairs.Add({kEpoch + 2 * kSecond, 2 * kSecond, 0, 5 * kMs});
  CHECK(At(pairs, kEpoch + 2 * kSecond + 4 * kMs) == 2 * kSecond + 4 * kMs);
}

TEST_CASE("what slewing, uncertain readings or less than 50 us explain is no step", "[cupti]") {
  ClockPairs pairs;
  pairs.Add({kEpoch, 0});
  CHECK(pairs.Add({kEpoch + 20 * kMs + 40 * kUs, 20 * kMs}) == 0);
  CHECK(pairs.Add({kEpoch + 40 * kMs, 40 * kMs}) == 0);
  CHECK(At(pairs, kEpoch + 30 * kMs) != -1);
  // The thread was kept from reading for ten seconds, in which the clock was slewed by 400 ppm.
  CHECK(pairs.Add({kEpoch + 10'040 * kMs + 4 * kMs, 10'040 * kMs}) == 0);
  CHECK(pairs.Add({kEpoch + 10'060 * kMs + 4 * kMs + 300 * kUs, 10'060 * kMs, 0, 300 * kUs}) == 0);
  CHECK(pairs.Add({kEpoch + 10'080 * kMs + 4 * kMs, 10'080 * kMs}) == 0);
  CHECK(pairs.Add({kEpoch + 10'100 * kMs + 4 * kMs + 100 * kUs, 10'100 * kMs}) == 100 * kUs);
}

TEST_CASE("of two steps each converts by the readings on its sides", "[cupti]") {
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

TEST_CASE("once no reading before a step is kept there is no other side", "[cupti]") {
  ClockPairs pairs = Stepped(-500 * kMs);
  CHECK(HowOf(pairs, kEpoch + 1 * kSecond) == Conversion::kNotPlaced);
  for (int64_t at = 3 * kSecond; at < 60 * kSecond; at += 20 * kMs) pairs.Add({kEpoch + at - 500 * kMs, at});
  CHECK(At(pairs, kEpoch + 59 * kSecond) == 59 * kSecond + 500 * kMs);
  CHECK(At(pairs, kEpoch + 1 * kSecond) == 1500 * kMs);
}

TEST_CASE("what is no time of the wall clock converts to nothing", "[cupti]") {
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
  CHECK(HowOf(pairs, 1'000'000) == Conversion::kNoTime);  // how long a cycle is nobody knows yet
  pairs.Add({kEpoch + kSecond, 1000 + kSecond, 1'000'000 + 2 * kSecond});
  CHECK(HowOf(pairs, 1'000'000 + 2 * kSecond) == Conversion::kByCycles);
  CHECK(At(pairs, 1'000'000 + 2 * kSecond) == 1000 + kSecond);
  CHECK(At(pairs, 1'000'000 + kSecond) == 1000 + kSecond / 2);
  CHECK(At(pairs, 1'000'000 + 2 * kSecond + 200) == 1000 + kSecond + 100);
  CHECK(HowOf(pairs, 1'000'000 + 1'000 * kSecond) == Conversion::kNoTime);
}

TEST_CASE("cycles know of no step", "[cupti]") {
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

TEST_CASE("conversions err as far as the worst of the readings that are kept", "[cupti]") {
  ClockPairs pairs;
  CHECK(pairs.MostErrorNs() == 0);
  for (int64_t i = 0; i <= 300; ++i)
    pairs.Add({kEpoch + i * kSecond, i * kSecond, 0, i == 0 ? 900 : i == 200 ? 700 : 60});
  CHECK(pairs.MostErrorNs() == 700);  // the first has given way
}

TEST_CASE("as many readings are kept as cover what may be on its way", "[cupti]") {
  // However often they are taken: the clock drifts for 20 s and stops drifting.
  for (const int64_t apart : {1 * kMs, 20 * kMs, 100 * kMs}) {
    ClockPairs pairs;
    const auto drift = [](int64_t at) { return std::min(at, 20 * kSecond) / 10'000; };
    for (int64_t at = 0; at <= 40 * kSecond; at += apart) pairs.Add({kEpoch + at, at + drift(at)});
    for (const int64_t at : {16 * kSecond, 19 * kSecond, 21 * kSecond, 40 * kSecond}) {
      CHECK(std::llabs(At(pairs, kEpoch + at) - (at + drift(at))) <= 10);
    }
  }
}
