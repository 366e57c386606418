// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/clock_pairs.h"

#include <catch2/catch.hpp>
#include <cstdlib>

namespace {

using pitot::cupti::ClockPair;
using pitot::cupti::ClockPairs;

constexpr int64_t kEpoch = 1'800'000'000'000'000'000;
constexpr int64_t kSecond = 1'000'000'000;

int64_t At(const ClockPairs& pairs, int64_t realtime_ns) {
  int64_t ns = 0;
  CHECK(pairs.ToMonotonic(static_cast<uint64_t>(realtime_ns), &ns));
  return ns;
}

}  // namespace

TEST_CASE("between two readings a slewed clock converts in proportion, outside as the nearest says", "[cupti]") {
  ClockPairs pairs;
  pairs.Add({kEpoch, 1000});
  pairs.Add({kEpoch + kSecond / 10, 1000 + kSecond / 10 + 40'000});  // 400 ppm slow
  CHECK(At(pairs, kEpoch) == 1000);
  CHECK(At(pairs, kEpoch + kSecond / 20) == 1000 + kSecond / 20 + 20'000);
  CHECK(At(pairs, kEpoch - 500) == 500);
  CHECK(At(pairs, kEpoch + kSecond) == 1000 + kSecond + 40'000);
  CHECK(pairs.steps() == 0);
}

TEST_CASE("a clock that was stepped converts by the reading on the same side of the step", "[cupti]") {
  for (const int64_t step : {5 * kSecond, -5 * kSecond}) {
    ClockPairs pairs;
    pairs.Add({kEpoch, 0});
    pairs.Add({kEpoch + kSecond, kSecond});
    pairs.Add({kEpoch + 2 * kSecond + step, 2 * kSecond});
    pairs.Add({kEpoch + 3 * kSecond + step, 3 * kSecond});
    CHECK(pairs.steps() == 1);
    CHECK(At(pairs, kEpoch + 3 * kSecond + step - 1000) == 3 * kSecond - 1000);
    CHECK(At(pairs, kEpoch + 2 * kSecond + step + 1000) == 2 * kSecond + 1000);
    if (step > 0) CHECK(At(pairs, kEpoch + 1000) == 1000);
  }
}

TEST_CASE("what is no time of the wall clock converts to nothing", "[cupti]") {
  ClockPairs pairs;
  int64_t ns = 0;
  CHECK_FALSE(pairs.ToMonotonic(kEpoch, &ns));
  pairs.Add({kEpoch, 1000});
  CHECK_FALSE(pairs.ToMonotonic(123'456'789, &ns));  // there is no counter
  CHECK_FALSE(pairs.ToMonotonic(~uint64_t{0}, &ns));
  CHECK(pairs.ToMonotonic(kEpoch, &ns));
}

TEST_CASE("cycles of the counter convert, too: PyTorch's profiler makes CUPTI stamp with them", "[cupti]") {
  ClockPairs pairs;
  pairs.Add({kEpoch, 1000, 1'000'000});
  int64_t ns = 0;
  CHECK_FALSE(pairs.ToMonotonic(1'000'000, &ns));  // how long a cycle is nobody knows yet
  pairs.Add({kEpoch + kSecond, 1000 + kSecond, 1'000'000 + 2 * kSecond});
  CHECK(At(pairs, 1'000'000 + 2 * kSecond) == 1000 + kSecond);
  CHECK(At(pairs, 1'000'000 + kSecond) == 1000 + kSecond / 2);
  CHECK(At(pairs, 1'000'000 + 2 * kSecond + 200) == 1000 + kSecond + 100);
  CHECK_FALSE(pairs.ToMonotonic(1'000'000 + 1'000 * kSecond, &ns));
}

TEST_CASE("a reading of both clocks is of one moment", "[cupti]") {
  const ClockPair a = pitot::cupti::ReadClockPair(), b = pitot::cupti::ReadClockPair();
  CHECK(b.monotonic_ns > a.monotonic_ns);
  CHECK(std::llabs((b.realtime_ns - a.realtime_ns) - (b.monotonic_ns - a.monotonic_ns)) < kSecond / 100);
}

TEST_CASE("as many readings are kept as cover what may be on its way", "[cupti]") {
  ClockPairs pairs;
  for (int64_t i = 0; i < 1000; ++i) pairs.Add({kEpoch + i * kSecond / 10, i * (kSecond / 10 + 100)});
  CHECK(At(pairs, kEpoch + 999 * kSecond / 10) == 999 * (kSecond / 10 + 100));
  CHECK(At(pairs, kEpoch + 800 * kSecond / 10) == 800 * (kSecond / 10 + 100));
}
