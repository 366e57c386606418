// SPDX-License-Identifier: Apache-2.0
#include "pitot/model/sweep.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <string>

namespace pitot::test {

using model::Interval;
using model::Intervals;
using model::Slice;

namespace {

bool Holds(const Intervals& set, int64_t ns) {
  for (const Interval& interval : set) {
    if (ns >= interval.begin_ns && ns < interval.end_ns) return true;
  }
  return false;
}
uint64_t ActiveAt(const std::vector<Intervals>& sets, int64_t ns) {
  uint64_t active = 0;
  for (size_t k = 0; k < sets.size(); ++k) active |= uint64_t{Holds(sets[k], ns)} << k;
  return active;
}
std::vector<const Intervals*> Pointers(const std::vector<Intervals>& sets) {
  std::vector<const Intervals*> pointers;
  for (const Intervals& set : sets) pointers.push_back(&set);
  return pointers;
}

}  // namespace

TEST_CASE("a sweep tiles the window exactly with the classes active at each moment", "[sweep]") {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int64_t most) { return std::uniform_int_distribution<int64_t>(0, most)(random); };
    std::vector<Intervals> sets(static_cast<size_t>(below(5)));
    for (Intervals& set : sets) {
      std::vector<Interval> intervals;
      for (int64_t i = below(8); i > 0; --i) {
        const int64_t begin_ns = below(60) - 10;
        intervals.push_back({begin_ns, begin_ns + below(12)});
      }
      set = model::Union(intervals);
    }
    const Interval window = {below(20), 20 + below(30)};

    const std::vector<Slice> slices = Sweep(Pointers(sets), window);

    INFO("seed " << seed);
    int64_t at_ns = window.begin_ns;
    for (size_t i = 0; i < slices.size(); ++i) {
      REQUIRE(slices[i].time.begin_ns == at_ns);
      REQUIRE(slices[i].time.end_ns > at_ns);
      if (i > 0) REQUIRE(slices[i].active != slices[i - 1].active);
      for (; at_ns < slices[i].time.end_ns; ++at_ns) REQUIRE(slices[i].active == ActiveAt(sets, at_ns));
    }
    REQUIRE(at_ns == window.end_ns);
    const std::vector<int64_t> totals = TotalsByPriority(Pointers(sets), window);
    REQUIRE(std::accumulate(totals.begin(), totals.end(), int64_t{0}) == window.end_ns - window.begin_ns);
    REQUIRE(totals.back() == TotalNs(IdleTime(slices)));
    const std::vector<Intervals> exposed = ExposedTimes(Pointers(sets), window);
    for (uint32_t k = 0; k < sets.size(); ++k) {
      REQUIRE(totals[k] == TotalNs(exposed[k]));
      REQUIRE(exposed[k] == model::Union(exposed[k]));  // in order, and apart from each other
      for (const Interval& time : exposed[k]) {
        for (at_ns = time.begin_ns; at_ns < time.end_ns; ++at_ns)
          REQUIRE((ActiveAt(sets, at_ns) & ((2u << k) - 1)) == 1u << k);
      }
    }
  }
}

TEST_CASE("a moment counts for the first active class", "[sweep]") {
  const std::vector<Intervals> sets = {{{10, 20}}, {{0, 15}, {30, 40}}, {{12, 50}}};

  const std::vector<Slice> slices = Sweep(Pointers(sets), {0, 100});

  CHECK(TotalsByPriority(Pointers(sets), {0, 100}) == std::vector<int64_t>{10, 20, 20, 50});
  CHECK(ExposedTimes(Pointers(sets), {0, 100})[2] == Intervals{{20, 30}, {40, 50}});
  CHECK(OverlapNs(slices, 0b111) == 3);
  CHECK(OverlapNs(slices, 0b110) == 13);
}

TEST_CASE("a window without time has no slices, and missing classes are empty", "[sweep]") {
  CHECK(model::Sweep({nullptr}, {5, 5}).empty());
  CHECK(model::Sweep({nullptr}, {5, 4}).empty());
  const std::vector<Slice> slices = model::Sweep({nullptr}, {5, 9});
  REQUIRE(slices.size() == 1);
  CHECK(slices[0].time == Interval{5, 9});
  CHECK(slices[0].active == 0);
}

}  // namespace pitot::test
