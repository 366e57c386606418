// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "trigger/quantile_cells.h"

using pitot::trigger::BucketBeginNs;
using pitot::trigger::BucketOf;
using pitot::trigger::kBucketsPerOctave;
using pitot::trigger::kOctaves;

TEST_CASE("every bucket begins at its least value and is at most 3 % wide", "[trigger]") {
  for (uint32_t bucket = 0; bucket < kOctaves * kBucketsPerOctave; ++bucket) {
    const uint64_t begin = BucketBeginNs(bucket), end = BucketBeginNs(bucket + 1);

    REQUIRE(BucketOf(begin) == bucket);
    REQUIRE(BucketOf(end - 1) == bucket);
    REQUIRE(static_cast<double>(end - begin) <= 0.03 * static_cast<double>(begin));
  }
}

TEST_CASE("buckets reach from a microsecond to beyond an hour", "[trigger]") {
  CHECK(BucketBeginNs(0) <= 1024);
  CHECK(BucketBeginNs(kOctaves * kBucketsPerOctave) > uint64_t{3600} * 1000000000);
  CHECK(BucketOf(0) == 0);
  CHECK(BucketOf(~uint64_t{0}) == kOctaves * kBucketsPerOctave - 1);
}

using pitot::trigger::kMaxRoutes;
using pitot::trigger::kMaxSizeBuckets;
using pitot::trigger::QuantileCells;

namespace {

uint64_t ThresholdOf(QuantileCells& cells, QuantileCells::Cell* cell, uint32_t* count) {
  return cells.Threshold(cell, count);
}
// The largest value in the bucket of `ns`.
uint64_t EndOfBucket(uint64_t ns) { return BucketBeginNs(BucketOf(ns) + 1) - 1; }

}  // namespace

TEST_CASE("the first bucket begins at 1,024 ns, and 36 of them double it", "[trigger]") {
  CHECK(BucketBeginNs(0) == 1024);
  CHECK(BucketBeginNs(1) == 1053);
  CHECK(BucketOf(1023) == 0);
  CHECK(BucketOf(1024) == 0);
  CHECK(BucketOf(1052) == 0);
  CHECK(BucketOf(1053) == 1);
  CHECK(BucketBeginNs(36) == 2048);
  CHECK(BucketOf(2047) == 35);
  CHECK(BucketOf(2048) == 36);
  CHECK(BucketBeginNs(360) == 1 << 20);
  const uint64_t end = uint64_t{1} << 42;
  CHECK(BucketBeginNs(kOctaves * kBucketsPerOctave) == end);
  CHECK(BucketOf(end - 1) == kOctaves * kBucketsPerOctave - 1);
  CHECK(BucketOf(end) == kOctaves * kBucketsPerOctave - 1);
}

TEST_CASE("a quantile is known at the warm-up, and again at every 64th value", "[trigger]") {
  QuantileCells cells(0.5, 1'000'000, 10, true);
  QuantileCells::Cell* const cell = cells.Find(1, 2);
  REQUIRE(cell != nullptr);
  uint32_t count = 7;

  for (int i = 0; i < 9; ++i) cells.Teach(cell, 20'000'000);
  CHECK(ThresholdOf(cells, cell, &count) == 0);
  CHECK(count == 0);
  cells.Teach(cell, 20'000'000);
  CHECK(ThresholdOf(cells, cell, &count) == EndOfBucket(20'000'000));
  CHECK(count == 10);
  for (int i = 0; i < 53; ++i) cells.Teach(cell, 40'000'000);
  CHECK(ThresholdOf(cells, cell, &count) == EndOfBucket(20'000'000));
  CHECK(count == 10);
  cells.Teach(cell, 40'000'000);
  CHECK(ThresholdOf(cells, cell, &count) == EndOfBucket(40'000'000));
  CHECK(count == 64);
}

TEST_CASE("a quantile is not known at a 64th value before the warm-up", "[trigger]") {
  QuantileCells cells(0.5, 1'000'000, 100, true);
  QuantileCells::Cell* const cell = cells.Find(1, 2);
  uint32_t count = 0;

  for (int i = 0; i < 99; ++i) cells.Teach(cell, 20'000'000);

  CHECK(ThresholdOf(cells, cell, &count) == 0);
  cells.Teach(cell, 20'000'000);
  CHECK(ThresholdOf(cells, cell, &count) != 0);
  CHECK(count == 100);
}

TEST_CASE("a warm-up of none is one of a single value", "[trigger]") {
  QuantileCells cells(0.5, 1'000, 0, true);
  QuantileCells::Cell* const cell = cells.Find(1, 2);
  uint32_t count = 0;

  cells.Teach(cell, 20'000'000);

  CHECK(ThresholdOf(cells, cell, &count) == EndOfBucket(20'000'000));
  CHECK(count == 1);
}

TEST_CASE("a quantile is the value of the nearest rank", "[trigger]") {
  // 1, 2, 4 ... 16 ms: an octave each.
  const auto quantile = [](double share, int values) {
    QuantileCells cells(share, 1'000, static_cast<uint32_t>(values), true);
    QuantileCells::Cell* const cell = cells.Find(0, 0);
    for (int i = 0; i < values; ++i) cells.Teach(cell, 1'000'000u << i);
    uint32_t count = 0;
    return ThresholdOf(cells, cell, &count);
  };
  const auto nth = [](int i) { return EndOfBucket(1'000'000u << i); };

  CHECK(quantile(0.5, 5) == nth(2));
  CHECK(quantile(0.6, 5) == nth(2));   // rank 2.4
  CHECK(quantile(0.65, 5) == nth(3));  // rank 2.6
  CHECK(quantile(0.9, 5) == nth(4));
  CHECK(quantile(0.05, 5) == nth(0));
  CHECK(quantile(0.5, 2) == nth(1));
  CHECK(quantile(0.5, 1) == nth(0));
}

TEST_CASE("a quantile tells values of one octave apart", "[trigger]") {
  QuantileCells cells(0.5, 1'000, 5, true);
  QuantileCells::Cell* const cell = cells.Find(0, 0);
  uint32_t count = 0;

  for (const uint64_t ns : {1100, 1300, 1500, 1700, 1900}) cells.Teach(cell, ns);

  CHECK(ThresholdOf(cells, cell, &count) == EndOfBucket(1500));
}

TEST_CASE("counts are halved, rounding down, whenever as many values as remembered came", "[trigger]") {
  QuantileCells cells(0.5, 10, 1, true);
  QuantileCells::Cell* const cell = cells.Find(1, 1);
  uint32_t count = 0;

  for (int i = 0; i < 7; ++i) cells.Teach(cell, 20'000'000);
  for (int i = 0; i < 2; ++i) cells.Teach(cell, 40'000'000);
  ThresholdOf(cells, cell, &count);
  CHECK(count == 1);  // as of the warm-up
  cells.Teach(cell, 40'000'000);
  CHECK(ThresholdOf(cells, cell, &count) == EndOfBucket(20'000'000));
  CHECK(count == 3 + 1);
  for (int i = 0; i < 9; ++i) cells.Teach(cell, 40'000'000);
  cells.Teach(cell, 40'000'000);
  CHECK(ThresholdOf(cells, cell, &count) == EndOfBucket(40'000'000));
  CHECK(count == 1 + 5);
}

TEST_CASE("one route has a cell for each of its sizes", "[trigger]") {
  QuantileCells cells(0.5, 1'000, 1, true);

  for (uint32_t size = 0; size < kMaxSizeBuckets; ++size) {
    QuantileCells::Cell* const cell = cells.Find(5, size);
    CHECK(cells.IsOfOneSize(cell));
    CHECK(cells.Find(5, size) == cell);
    CHECK(cells.Find(5, size + kMaxSizeBuckets) == cell);
    CHECK(cells.Find(5 + kMaxRoutes, size) == cell);
    for (uint32_t other = 0; other < size; ++other) CHECK(cells.Find(5, other) != cell);
  }
  CHECK_FALSE(cells.IsOfOneSize(cells.Find(6, 0)));  // the pool is used up
}

TEST_CASE("all routes have 192 cells of one size, and then one a route for the rest", "[trigger]") {
  QuantileCells cells(0.5, 1'000, 1, false);

  uint32_t of_one_size = 0;
  for (uint32_t route = 0; route < 4; ++route) {
    for (uint32_t size = 0; size < kMaxSizeBuckets; ++size) of_one_size += cells.IsOfOneSize(cells.Find(route, size));
  }

  CHECK(of_one_size == 192);
  CHECK(cells.Find(10, 1) == cells.Find(10, 2));
  CHECK(cells.Find(10, 1) == cells.Find(10 + kMaxRoutes, 3));
  CHECK(cells.Find(10, 1) != cells.Find(11, 1));
  CHECK(cells.Find(63, 1) != cells.Find(0, 1));
  CHECK_FALSE(cells.IsOfOneSize(cells.Find(63, 1)));
}
