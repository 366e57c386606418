// SPDX-License-Identifier: Apache-2.0
#include "base/newest.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <numeric>
#include <vector>

namespace {

struct Row {
  int64_t begin_ns, duration_ns;
  uint32_t device;
};
constexpr int64_t kRows = 1024, kRowsAtOnce = 64;

// A full ring: each row ends at its number, from 1 on.
template <class Newest> struct Ring {
  Ring() { Add(kRows); }
  void Add(int64_t count, uint32_t device = 0) {
    for (; count > 0; --count) newest.Add({++added, 0, device});
  }
  std::vector<int64_t> Kept() const {
    std::vector<int64_t> kept;
    for (const Row& row : newest.kept()) kept.push_back(row.begin_ns);
    return kept;
  }

  Newest newest{2 * kRows * sizeof(Row)};
  int64_t added = 0;
};
using Plain = pitot::base::Newest<Row>;
using ByDevice = pitot::base::Newest<Row, 3>;

std::vector<int64_t> From(int64_t first, int64_t last) {
  std::vector<int64_t> all(static_cast<size_t>(last - first + 1));
  std::iota(all.begin(), all.end(), first);
  return all;
}

}  // namespace

TEST_CASE("a copy has the rows that end in its window, and nothing is missing before the ring is full", "[newest]") {
  Ring<Plain> ring;
  CHECK(ring.newest.Keep(0));
  CHECK(ring.Kept() == From(1, kRows));
  CHECK(ring.newest.lost_until_ns() == 0);
  CHECK(ring.newest.Keep(1000));
  CHECK(ring.Kept() == From(1000, kRows));
}

TEST_CASE("rows overwritten before the copy began are reported, if they ended in its window", "[newest]") {
  Ring<Plain> ring;
  ring.Add(5);
  CHECK(ring.newest.Keep(0));
  CHECK(ring.Kept() == From(6, kRows + 5));
  CHECK(ring.newest.lost_until_ns() == 5);
  CHECK(ring.newest.Keep(6));
  CHECK(ring.Kept() == From(6, kRows + 5));
  CHECK(ring.newest.lost_until_ns() == 0);
}

TEST_CASE("rows overwritten after they were copied are in the copy, and no loss", "[newest]") {
  Ring<Plain> ring;
  int portions = 0;
  CHECK(ring.newest.Keep(0, [&] {
    ++portions;
    ring.Add(kRowsAtOnce);
  }));
  CHECK(portions == kRows / kRowsAtOnce);
  CHECK(ring.Kept() == From(1, kRows));
  CHECK(ring.newest.lost_until_ns() == 0);
}

TEST_CASE("rows overwritten before they were copied are a gap, and its end is reported", "[newest]") {
  Ring<Plain> ring;
  bool is_first = true;
  CHECK_FALSE(ring.newest.Keep(0, [&] {
    if (is_first) ring.Add(kRowsAtOnce + 36);
    is_first = false;
  }));
  std::vector<int64_t> expected = From(1, kRowsAtOnce);
  const std::vector<int64_t> rest = From(kRowsAtOnce + 37, kRows);
  expected.insert(expected.end(), rest.begin(), rest.end());
  CHECK(ring.Kept() == expected);
  CHECK(ring.newest.lost_until_ns() == kRowsAtOnce + 36);
}

TEST_CASE("a copy ends if all of its rows were overwritten meanwhile", "[newest]") {
  Ring<Plain> ring;
  CHECK_FALSE(ring.newest.Keep(0, [&] { ring.Add(2 * kRows); }));
  CHECK(ring.Kept() == From(1, kRowsAtOnce));
  CHECK(ring.newest.lost_until_ns() >= kRows);
}

TEST_CASE("each device has its own end of what is missing, before the copy and during it", "[newest]") {
  Ring<ByDevice> ring;
  ring.Add(kRows - 1, 1);
  ring.Add(1, 2);
  CHECK(ring.newest.Keep(0));
  CHECK(ring.newest.lost_until_ns(0) == kRows);
  CHECK(ring.newest.lost_until_ns(1) == 0);
  CHECK(ring.newest.lost_until_ns(2) == 0);
  bool is_first = true;
  CHECK_FALSE(ring.newest.Keep(kRows + 1, [&] {
    if (is_first) ring.Add(100);
    is_first = false;
  }));
  CHECK(ring.newest.lost_until_ns(0) == 0);
  CHECK(ring.newest.lost_until_ns(1) == kRows + 100);
  CHECK(ring.newest.lost_until_ns(2) == 0);
}

TEST_CASE("rows that are added to no memory are dropped", "[newest]") {
  pitot::base::Newest<Row> newest;
  newest.Add({1, 0, 0});
  CHECK(newest.Keep(0));
  CHECK(newest.kept().empty());
}
