// SPDX-License-Identifier: Apache-2.0
#include "base/add_up.h"

#include <catch2/catch.hpp>
#include <cstdlib>

using pitot::base::RoundTo;
using pitot::base::RoundToAddUp;
using Parts = std::vector<int64_t>;

TEST_CASE("rounded parts add up to the given sum", "[add_up]") {
  CHECK(RoundToAddUp({14, 14, 14}, 10, 4) == Parts{2, 1, 1});  // sum 42; each part alone would be 1
  CHECK(RoundToAddUp({16, 16, 16}, 10, 5) == Parts{2, 2, 1});  // sum 48; each part alone would be 2
  CHECK(RoundToAddUp({135, -4, 50}, 10, 18) == Parts{13, 0, 5});
  CHECK(RoundToAddUp({-14, -14}, 10, -3) == Parts{-1, -2});
  CHECK(RoundToAddUp({20, 30}, 10, 5) == Parts{2, 3});
  CHECK(RoundToAddUp({}, 10, 0) == Parts{});
}

TEST_CASE("a part is off by less than a unit if the sum is rounded", "[add_up]") {
  for (int64_t seed = 0; seed < 500; ++seed) {
    Parts parts;
    int64_t sum = 0;
    for (int64_t i = 0; i < 1 + seed % 7; ++i)
      parts.push_back((seed * 7919 + i * 104729) % 2001 - 700), sum += parts.back();

    const Parts rounded = RoundToAddUp(parts, 100, RoundTo(sum, 100));

    int64_t rounded_sum = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      rounded_sum += rounded[i];
      CHECK(std::llabs(rounded[i] * 100 - parts[i]) < 100);
    }
    CHECK(rounded_sum == RoundTo(sum, 100));
  }
}

TEST_CASE("halves are rounded away from zero", "[add_up]") {
  CHECK((RoundTo(15, 10) == 2 && RoundTo(14, 10) == 1 && RoundTo(-15, 10) == -2 && RoundTo(-14, 10) == -1));
}
