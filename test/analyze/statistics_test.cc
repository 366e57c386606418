// SPDX-License-Identifier: Apache-2.0
//
// The basis of comparisons: exact splits, rank tests and their intervals.
#include "analyze/facts/statistics.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "analyze/diff/change.h"
#include "base/quantile.h"

namespace pitot::test {

using namespace facts;

TEST_CASE("a change is split into its effects exactly, in whole ns", "[statistics]") {
  // 3 of 10 ns become 5 of 14: (5 - 3) x 12 and (14 - 10) x 4, for one request each.
  const auto changes = diff::SplitChanges({{{30, 3'000'000}, {70, 5'000'000}}, {{0, 0}, {7, 1'000'000}}}, 1, 1);

  CHECK(changes[0].count_effect_ns == 24);
  CHECK(changes[0].duration_effect_ns == 16);
  CHECK(changes[1].count_effect_ns == 7);
  CHECK(changes[1].duration_effect_ns == 0);

  std::mt19937_64 random(5);
  for (int i = 0; i < 200; ++i) {
    std::vector<diff::AmountPair> keys(1 + random() % 20);
    int64_t before = 0, after = 0;
    const auto n1 = 1 + random() % 1000, n2 = 1 + random() % 1000;
    for (diff::AmountPair& key : keys) {
      for (diff::Amount* const amount : {&key.before, &key.after}) {
        const auto count = static_cast<int64_t>(random() % 50);
        *amount = {count == 0 ? 0 : static_cast<int64_t>(random() % 1'000'000'000), count * 1'000'000};
      }
      before += key.before.total_ns;
      after += key.after.total_ns;
    }
    int64_t sum_before = 0, sum_after = 0;
    for (const diff::Change& change : diff::SplitChanges(keys, n1, n2)) {
      sum_before += change.before_ns;
      sum_after += change.after_ns;
      REQUIRE(change.count_effect_ns + change.duration_effect_ns == change.after_ns - change.before_ns);
    }
    const auto mean = [](int64_t total, uint64_t n) {
      return (total + static_cast<int64_t>(n) / 2) / static_cast<int64_t>(n);
    };
    REQUIRE(sum_before == mean(before, n1));
    REQUIRE(sum_after == mean(after, n2));
  }
}

TEST_CASE("quantiles are linear between ranks, as numpy's", "[statistics]") {
  // numpy.quantile([15, 20, 35, 40, 50], [0, .05, .3, .4, .5, .99, 1])
  const std::vector<double> values = {50, 15, 40, 35, 20};
  const double known[][2] = {{0, 15}, {0.05, 16}, {0.3, 23}, {0.4, 29}, {0.5, 35}, {0.99, 49.6}, {1, 50}};
  for (const auto& [q, value] : known) CHECK(base::Quantile(values, q) == Approx(value));
  CHECK(base::Median(std::vector<double>{4, 1, 2, 3}) == 2.5);
  CHECK(base::Median(std::vector<double>{7}) == 7);
  CHECK(base::Median(std::vector<double>{}) == 0);

  SECTION("of whole numbers rounded, also of the largest") {
    CHECK(base::Median(std::vector<int64_t>{4, 1, 2, 3}) == 3);
    CHECK(base::Quantile(std::vector<int64_t>{0, 10}, 0.12) == 1);
    CHECK(base::Median(std::vector<int64_t>{INT64_MAX, 0}) == int64_t{1} << 62);
    CHECK(base::Quantile(std::vector<uint64_t>{UINT64_MAX, 0}, 1) == UINT64_MAX);
  }
  SECTION("of weighted ones the least that weighs so much with those below it") {
    CHECK(base::WeightedQuantile({{3, 1}, {1, 5}, {2, 4}}, 0.5) == 1);
    CHECK(base::WeightedQuantile({{3, 1}, {1, 5}, {2, 4}}, 0.51) == 2);
    CHECK(base::WeightedQuantile({{3, 1}, {1, 5}, {2, 4}}, 1) == 3);
    CHECK(base::WeightedQuantile({}, 0.5) == 0);
  }
}

TEST_CASE("rank tests and intervals are those of the books", "[statistics]") {
  // U = 3 of 36, sigma^2 = 39: z = (18 - 3 - 0.5) / sqrt(39).
  const std::vector<double> a = {1, 2, 3, 4, 6, 8}, b = {5, 7, 9, 10, 11, 12};
  CHECK(MannWhitney(a, b, 1) == Approx(std::erfc(14.5 / std::sqrt(39.0) / std::sqrt(2.0))).epsilon(1e-9));
  CHECK(MannWhitney(a, b, 4) > MannWhitney(a, b, 1));
  CHECK(MannWhitney(a, a, 1) == 1);
  CHECK(MannWhitney({1, 2, 3}, b, 1) == 1);
  CHECK(Discoveries({0.01, 0.04, 0.03, 0.5}, 0.05) == std::vector<bool>{true, false, false, false});
  CHECK(Discoveries({0.01, 0.02, 0.03, 0.5}, 0.05) == std::vector<bool>{true, true, true, false});

  std::vector<double> hundred, up_and_down;
  for (int i = 1; i <= 100; ++i) hundred.push_back(i), up_and_down.push_back(i % 2 == 1 ? (i + 1) / 2 : 50 + i / 2);
  // 50.5, and 50 -+ 1.96 x 5.
  const Estimate median = Quantile(up_and_down, 0.5);
  CHECK((median.value == 50.5 && median.low == 40 && median.high == 61 && median.is_known));
  CHECK_FALSE(Quantile(up_and_down, 0.99).is_known);
  const Estimate shift = Shift(hundred, hundred, 1);
  CHECK(shift.value == Approx(0).margin(1));
  CHECK((shift.low < -5 && shift.high > 5 && shift.low > -12 && shift.high < 12));
  CHECK(Inflation(hundred) > 30);
  CHECK(Inflation({1, 9, 2, 8, 3, 7}) == 1);
  CHECK(KolmogorovSmirnov(hundred, hundred) == 1);
  CHECK(KolmogorovSmirnov(hundred, {200, 201, 202, 203, 204, 205}) < 0.001);
}

namespace {

// Latencies with neighbours that are `like` each other.
std::vector<double> DrawAlike(std::mt19937_64* random, size_t count, double like) {
  std::normal_distribution<double> normal;
  std::vector<double> values;
  double state = normal(*random);
  for (size_t i = 0; i < count; ++i) {
    values.push_back(state);
    state = like * state + std::sqrt(1 - like * like) * normal(*random);
  }
  return values;
}

// Latencies of a machine that is busy with others for `length` requests at a time, for `share` of the time.
std::vector<double> DrawEpisodes(std::mt19937_64* random, size_t count, double share, double length, double slower) {
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  std::vector<double> values;
  bool is_busy = uniform(*random) < share;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(std::exp(0.15 * normal(*random)) * (is_busy ? slower : 1));
    if (uniform(*random) < (is_busy ? 1 : share / (1 - share)) / length) is_busy = !is_busy;
  }
  return values;
}

}  // namespace

TEST_CASE("the interval of a shift holds the truth in 95 of 100 draws, also if neighbours are alike", "[statistics]") {
  std::mt19937_64 random(11);
  const auto held = [](const auto& draw) {
    int count = 0;
    for (int i = 0; i < 300; ++i) {
      const std::vector<double> a = draw(), b = draw();
      const Estimate shift = Shift(a, b, std::max(Inflation(a), Inflation(b)));
      count += shift.low <= 0 && shift.high >= 0;
    }
    return count;
  };

  CHECK(held([&] { return DrawAlike(&random, 200, 0); }) >= 276);
  CHECK(held([&] { return DrawAlike(&random, 200, 0.6); }) >= 276);
  // By their next neighbours alone these are hardly alike.
  CHECK(held([&] { return DrawEpisodes(&random, 600, 0.2, 20, 1.4); }) >= 276);
}

TEST_CASE("a high quantile's interval holds the truth if the slowest requests come together", "[statistics]") {
  std::mt19937_64 random(12);
  int apart = 0;
  for (int i = 0; i < 300; ++i) {
    const Estimate a = Quantile(DrawEpisodes(&random, 5000, 0.05, 10, 2.5), 0.95),
                   b = Quantile(DrawEpisodes(&random, 5000, 0.05, 10, 2.5), 0.95);
    REQUIRE((a.is_known && b.is_known));
    apart += a.high < b.low || b.high < a.low;
  }
  CHECK(apart <= 6);
}

TEST_CASE("many values are compared in blocks, and no less alike for that", "[statistics]") {
  std::mt19937_64 random(13);
  CHECK(Inflation(DrawAlike(&random, 50'000, 0)) < 1.5);
  // (1 + r) / (1 - r) is 19.
  const double inflation = Inflation(DrawAlike(&random, 50'000, 0.9));
  CHECK((inflation > 15 && inflation < 24));
}

}  // namespace pitot::test
