// SPDX-License-Identifier: Apache-2.0
#include "peers/numpy_sort.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <utility>
#include <vector>

#include "base/sort_runs.h"

using pitot::peers::NumpyArgsort;

TEST_CASE("numpy's order sorts any input", "[numpy]") {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    std::vector<int64_t> values(random() % 3000);
    // With ties; every third time two ascending halves, a bad case for its depth.
    for (int64_t& value : values) value = static_cast<int64_t>(random() % 500);
    if (seed % 3 == 0) {
      const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
      std::sort(values.begin(), middle);
      std::sort(middle, values.end());
    }

    const std::vector<uint32_t> order = NumpyArgsort(values);

    std::vector<bool> seen(values.size());
    for (size_t i = 0; i < order.size(); ++i) {
      REQUIRE_FALSE(seen[order[i]]);
      seen[order[i]] = true;
      if (i > 0) REQUIRE(values[order[i - 1]] <= values[order[i]]);
    }
  }
}

TEST_CASE("numpy's order of equal values is not that of the input", "[numpy]") {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < 24; ++i) values.push_back(i % 3);
  const std::vector<uint32_t> order = NumpyArgsort(values);
  CHECK_FALSE(std::is_sorted(order.begin(), order.begin() + 8));
  // At most 17 values are sorted by insertion, which is stable.
  values.resize(17);
  const std::vector<uint32_t> few = NumpyArgsort(values);
  CHECK(std::is_sorted(few.begin(), few.begin() + 6));
}

TEST_CASE("rows with ordered runs are sorted like by a stable sort", "[sort_runs]") {
  std::mt19937 random(1);
  const auto is_before = [](const std::pair<int, int>& a, const std::pair<int, int>& b) { return a.first < b.first; };
  for (const int runs : {0, 1, 2, 3, 7, 64, 65, 500}) {
    INFO(runs << " runs");
    std::vector<std::pair<int, int>> rows;
    for (int run = 0; run < runs; ++run) {
      for (int i = 0, value = 0; i < 10; ++i)
        rows.emplace_back(value += static_cast<int>(random() % 3), static_cast<int>(rows.size()));
    }
    std::vector<std::pair<int, int>> sorted = rows;
    std::stable_sort(sorted.begin(), sorted.end(), is_before);
    pitot::base::SortRuns(&rows, is_before);
    CHECK(rows == sorted);
  }
}
