// SPDX-License-Identifier: Apache-2.0
#include "governor/contrast.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "governor/classes.h"
#include "governor/switchback.h"

using pitot::Depth;
using pitot::governor::Classes;
using pitot::governor::Contrast;
using pitot::governor::Lots;
using pitot::governor::Overhead;
using pitot::governor::Relative;
using pitot::governor::Round;
using pitot::governor::Tally;

namespace {

constexpr int64_t kSecond = 1'000'000'000;

// Works of a block: their number and durations vary, and those of one block vary together.
Tally Block(double factor, double passing, std::mt19937_64& random) {
  std::normal_distribution<double> together(1, 0.05), alone(1, 0.3);
  const auto works = std::poisson_distribution<int>(60)(random);
  const double level = together(random);
  Tally tally;
  for (int i = 0; i < works; ++i) tally.time += factor * level * alone(random);
  tally.works = works;
  tally.slow = std::poisson_distribution<int>(0.6 * passing)(random);
  return tally;
}

}  // namespace

TEST_CASE("intervals of contrasts hold the truth as often as claimed", "[governor]") {
  for (const int rounds : {10, 40, 200}) {
    std::mt19937_64 random(static_cast<uint64_t>(rounds));
    constexpr int kRuns = 600;
    int mean_holds = 0, tail_holds = 0, tail_known = 0;
    for (int run = 0; run < kRuns; ++run) {
      Contrast contrast(3600 * kSecond);
      for (int i = 0; i < rounds; ++i) contrast.Add(i * kSecond, Block(1.03, 1.5, random), Block(1, 1, random));
      const Overhead mean = contrast.Mean(rounds * kSecond), tail = contrast.Tail(rounds * kSecond, 8);
      REQUIRE(mean.is_known);
      mean_holds += mean.low <= 0.03 && 0.03 <= mean.high;
      const double true_tail = std::pow(1.5, 1 / 8.0) - 1;
      tail_known += tail.is_known;
      tail_holds += tail.is_known && tail.low <= true_tail && true_tail <= tail.high;
    }

    INFO(rounds << " rounds");
    // 95 % less three standard errors of a binomial, 2.7 %, and one for the error of the approximations.
    CHECK(mean_holds >= 0.91 * kRuns);
    CHECK(mean_holds <= 0.985 * kRuns);
    if (tail_known > 100) CHECK(tail_holds >= 0.90 * tail_known);
  }
}

TEST_CASE("few rounds, few slow works or none are unknown", "[governor]") {
  std::mt19937_64 random(1);
  Contrast contrast(3600 * kSecond);
  CHECK_FALSE(contrast.Mean(0).is_known);

  for (int i = 0; i < 7; ++i) contrast.Add(i, Block(1, 1, random), Block(1, 1, random));
  CHECK_FALSE(contrast.Mean(10).is_known);
  contrast.Add(10, Block(1, 1, random), Block(1, 1, random));
  CHECK(contrast.Mean(10).is_known);
  CHECK_FALSE(contrast.Tail(10, 8).is_known);

  Contrast idle(3600 * kSecond);
  for (int i = 0; i < 100; ++i) idle.Add(i, {}, {});
  CHECK_FALSE(idle.Mean(100).is_known);
}

TEST_CASE("an estimate without new rounds widens, and is unknown after some half-lives", "[governor]") {
  std::mt19937_64 random(1);
  Contrast contrast(3600 * kSecond);
  for (int i = 0; i < 100; ++i) contrast.Add(i * kSecond, Block(1, 1, random), Block(1, 1, random));
  const auto width = [&](int64_t hours) {
    const Overhead mean = contrast.Mean((100 + hours * 3600) * kSecond);
    return mean.high - mean.low;
  };

  CHECK(width(3) > 1.5 * width(0));
  CHECK(contrast.Mean(4 * 3600 * kSecond).is_known);
  CHECK_FALSE(contrast.Mean(6 * 3600 * kSecond).is_known);
}

TEST_CASE("a contrast rests on the works of the arm with fewer, in rounds that still count", "[governor]") {
  Contrast contrast(3600 * kSecond), other(3600 * kSecond);
  CHECK(contrast.Works(0) == 0);
  for (int i = 0; i < 100; ++i) contrast.Add(i * kSecond, {60, 60, 1}, {40, 40, 1});
  for (int i = 0; i < 10; ++i) other.Add(i * kSecond, {20, 20, 1}, {30, 30, 1});
  CHECK(contrast.Works(100 * kSecond) == Approx(40 * contrast.Rounds(100 * kSecond)));
  CHECK(contrast.Works(100 * kSecond) == Approx(4000).epsilon(0.03));

  CHECK(contrast.Works(2 * 3600 * kSecond) < 0.6 * contrast.Works(100 * kSecond));
  contrast.Become(other);
  CHECK(contrast.Works(10 * kSecond) == Approx(200).epsilon(0.01));
}

TEST_CASE("newer rounds count more: the estimate follows a change in some half-lives", "[governor]") {
  std::mt19937_64 random(1);
  Contrast contrast(60 * kSecond);
  int64_t second = 0;
  for (; second < 300; ++second) contrast.Add(second * kSecond, Block(1, 1, random), Block(1, 1, random));
  CHECK(std::abs(contrast.Mean(second * kSecond).value) < 0.03);

  for (; second < 600; ++second) contrast.Add(second * kSecond, Block(1.5, 1, random), Block(1, 1, random));
  CHECK(contrast.Mean(second * kSecond).value == Approx(0.5).margin(0.05));
}

TEST_CASE("works count by their begin, without margins and other time", "[governor]") {
  constexpr int64_t kBlock = 100;
  Lots lots(1);
  Round round;
  round.Begin(0, kBlock, {Depth::kScopes, Depth::kGraphs, Depth::kKernels}, Depth::kGraphs, &lots);
  for (int64_t now = kBlock; now <= 3 * kBlock; now += kBlock) CHECK_FALSE(round.Advance(now));

  for (int64_t begin = 0; begin < 3 * kBlock; ++begin) round.Take(begin, {true, 1, begin % 2 == 0});
  round.Take(50, {false, 1, true});

  CHECK(round.Advance(4 * kBlock));
  for (const Depth depth : {Depth::kScopes, Depth::kGraphs, Depth::kKernels}) {
    CHECK(round.AverageBlock(depth).works == 60);
    CHECK(round.AverageBlock(depth).slow == 30);
  }
}

TEST_CASE("two blocks of a depth in a round weigh as one", "[governor]") {
  Lots lots(1);
  Round round;
  round.Begin(0, 100, {Depth::kScopes, Depth::kGraphs, Depth::kGraphs}, Depth::kGraphs, &lots);
  for (int64_t now = 100; now <= 300; now += 100) round.Advance(now);

  for (int64_t begin = 0; begin < 300; ++begin) round.Take(begin, {true, 2, false});

  CHECK(round.AverageBlock(Depth::kGraphs).works == 60);
  CHECK(round.AverageBlock(Depth::kScopes).works == 60);
}

TEST_CASE("each order of a round's blocks is drawn as often as the others", "[governor]") {
  Lots lots(7);
  int first[4] = {}, last[4] = {};
  for (int i = 0; i < 6000; ++i) {
    Round round;
    round.Begin(0, 100, {Depth::kScopes, Depth::kGraphs, Depth::kKernels}, Depth::kScopes, &lots);
    ++first[static_cast<int>(round.depth())];
    round.Advance(100);
    round.Advance(200);
    ++last[static_cast<int>(round.depth())];
  }

  for (const int* counts : {first, last}) {
    for (int depth = 0; depth < 3; ++depth) CHECK(std::abs(counts[depth] - 2000) < 150);  // four standard deviations
  }
}

TEST_CASE("a block at a catastrophic depth is left at once, but not at a merely expensive one", "[governor]") {
  for (const double duration : {1.5, 2.5}) {
    Lots lots(1);
    Round round;
    round.Begin(0, 1000, {Depth::kGraphs, Depth::kGraphs, Depth::kGraphs}, Depth::kScopes, &lots);
    for (int64_t begin = 1; begin < 10; ++begin) round.Take(begin, {true, duration, false});
    CHECK_FALSE(round.CutIfCatastrophic(400));
    round.Take(11, {true, duration, false});

    CHECK(round.CutIfCatastrophic(400) == (duration > 2));
    CHECK(round.depth() == (duration > 2 ? Depth::kScopes : Depth::kGraphs));
  }
}

TEST_CASE("works are measured against their class's own mean and p99", "[governor]") {
  Classes classes;
  for (int i = 0; i < 500; ++i) {
    for (const uint32_t work_class : {1u, 2u}) {
      CHECK_FALSE(classes.Take(work_class, (work_class == 1 ? 1'000'000 : 50'000'000) + i * 1000).is_known);
    }
  }
  classes.Refresh();

  const Relative small = classes.Take(1, 1'250'000), large = classes.Take(2, 50'250'000);
  REQUIRE(small.is_known);
  CHECK(small.duration == Approx(1).margin(0.01));
  CHECK_FALSE(small.is_slow);
  CHECK(large.duration == Approx(1).margin(0.01));
  CHECK(classes.Take(1, 1'600'000).is_slow);
  CHECK_FALSE(classes.Take(2, 1'600'000).is_slow);
  CHECK(classes.Take(1, int64_t{1} << 62).duration == Classes::kLongest);
  CHECK(classes.LongP99Ns() == Approx(50.5e6).epsilon(0.001));
}

TEST_CASE("about one work in a hundred is beyond its class's p99, whatever the durations", "[governor]") {
  for (const double sigma : {0.001, 0.01, 0.3, 1.5}) {
    std::mt19937_64 random(1);
    std::lognormal_distribution<double> duration(std::log(5e6), sigma);
    Classes classes;
    double steepness = 0;
    int slow = 0;
    for (int i = 0; i < 60000; ++i) {
      if (i % 1000 == 0) classes.Refresh();
      slow += classes.Take(1, static_cast<int64_t>(duration(random))).is_slow && i >= 10000;
      steepness = classes.TailSteepness();
    }

    INFO("sigma " << sigma);
    CHECK(slow >= 250);
    CHECK(slow <= 1000);
    // The steepness of a lognormal at its p99: z + 1/z and a bit, over sigma.
    if (sigma >= 0.3) CHECK(steepness == Approx(2.9 / sigma).epsilon(0.25));
  }
}

TEST_CASE("classes beyond the 64th are measured as one", "[governor]") {
  Classes classes;
  for (int i = 0; i < 1000; ++i) {
    for (uint32_t work_class = 0; work_class < 200; ++work_class) classes.Take(work_class, 1'000'000);
  }
  classes.Refresh();

  CHECK(classes.Take(63, 1'000'000).is_known);
  CHECK(classes.Take(7'000'000, 1'000'000).is_known);
}
