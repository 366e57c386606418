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
