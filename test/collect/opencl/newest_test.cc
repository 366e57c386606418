// SPDX-License-Identifier: Apache-2.0
#include "base/newest.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <thread>

namespace {

struct Row {
  int64_t begin_ns, duration_ns;
};
constexpr uint64_t kRows = 1024;

}  // namespace

TEST_CASE("a full ring hands back the row that had to go", "[newest]") {
  pitot::base::Newest<Row> newest(2 * kRows * sizeof(Row));
  Row gone{-1, -1};
  for (uint64_t i = 0; i < kRows; ++i) CHECK_FALSE(newest.Add({static_cast<int64_t>(i), 0}, &gone));
  CHECK(gone.begin_ns == -1);
  CHECK(newest.Add({5000, 0}, &gone));
  CHECK(gone.begin_ns == 0);

  CHECK(newest.Keep(0));
  CHECK(newest.kept().size() == kRows);
  CHECK(newest.kept().front().begin_ns == 1);
  CHECK(newest.kept().back().begin_ns == 5000);
}

TEST_CASE("a copy made while others add has no gap, or says until when rows are missing", "[newest][threads]") {
  pitot::base::Newest<Row> newest(2 * kRows * sizeof(Row));
  std::atomic<bool> stop{false};
  std::atomic<int64_t> added{0};
  std::thread adder([&] {
    for (int64_t at = 1; !stop; ++at) newest.Add({at, 0}), added = at;
  });
  while (added < 2 * static_cast<int64_t>(kRows)) std::this_thread::yield();
  for (int round = 0; round < 200; ++round) {
    (void)newest.Keep(0);
    int64_t before = newest.lost_until_ns();
    for (const Row& row : newest.kept()) {
      if (row.begin_ns > newest.lost_until_ns()) CHECK(row.begin_ns == ++before);
    }
  }
  stop = true;
  adder.join();
}
