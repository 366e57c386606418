// SPDX-License-Identifier: Apache-2.0
//
// How long scopes usually take.
#include "pitot/analyze/scopes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/quantile.h"

namespace pitot::test {

using analyze::DurationSketch;

TEST_CASE("quantiles of a sketch are within 1/32 of the value at their rank", "[scopes]") {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> draw(std::log(2e6), 1.5);
  DurationSketch sketch;
  std::vector<int64_t> values;
  for (int i = 0; i < 8000; ++i) {
    values.push_back(std::clamp<int64_t>(static_cast<int64_t>(draw(random)), 1024, 60'000'000'000));
    sketch.Add(values.back());
  }
  std::sort(values.begin(), values.end());
  REQUIRE(sketch.size() == values.size());
  for (const double q : {0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const int64_t exact = values[static_cast<size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
    CHECK(std::abs(sketch.Quantile(q) - exact) <= exact / 32 + 1);
  }
}

TEST_CASE("a sketch is bounded, forgets the older half, and takes any duration", "[scopes]") {
  DurationSketch sketch;
  CHECK(sketch.Quantile(0.5) == 0);
  for (const int64_t ns : {INT64_MIN, int64_t{-1}, int64_t{0}, int64_t{1}}) sketch.Add(ns);
  CHECK(sketch.Quantile(1) < 1100);
  sketch.Add(INT64_MAX);
  CHECK(sketch.Quantile(1) > int64_t{130} * 1'000'000'000);

  DurationSketch changed;
  for (uint32_t i = 0; i < 3 * DurationSketch::kMost; ++i) changed.Add(2'000'000);
  CHECK(changed.size() <= DurationSketch::kMost);
  for (uint32_t i = 0; i < DurationSketch::kMost; ++i) changed.Add(8'000'000);
  CHECK(changed.size() <= DurationSketch::kMost);
  CHECK(changed.Quantile(0.5) == Approx(8e6).epsilon(0.032));
}

}  // namespace pitot::test
