// SPDX-License-Identifier: Apache-2.0
#include "pitot/model/sweep.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

PITOT_NAMESPACE_BEGIN
namespace model {
namespace {

// The next begin or end of an interval of a class.
struct Edge {
  int64_t at_ns;
  uint32_t of_class;
  size_t interval;
  bool is_end;
  bool operator>(const Edge& other) const { return at_ns > other.at_ns; }
};

// The lowest active class, or `count`.
uint32_t FirstOf(uint64_t active, uint32_t count) {
  return std::min(active == 0 ? count : static_cast<uint32_t>(std::countr_zero(active)), count);
}

// Extends the set's last interval if `time` follows it without a gap.
void Append(Interval time, Intervals* set) {
  if (!set->empty() && set->back().end_ns == time.begin_ns) {
    set->back().end_ns = time.end_ns;
  } else {
    set->push_back(time);
  }
}

// Visits slices in order. Consecutive slices may have the same active classes.
template <class Visit>
void VisitSlices(const std::vector<const Intervals*>& classes, Interval window, const Visit& visit) {
  if (window.begin_ns >= window.end_ns) return;
  std::priority_queue<Edge, std::vector<Edge>, std::greater<>> edges;
  const auto count = static_cast<uint32_t>(std::min<size_t>(classes.size(), kMostClasses));
  for (uint32_t k = 0; k < count; ++k) {
    if (classes[k] == nullptr) continue;
    const Intervals& set = *classes[k];
    const auto first =
        std::partition_point(set.begin(), set.end(), [&](const Interval& i) { return i.end_ns <= window.begin_ns; });
    if (first != set.end()) edges.push({first->begin_ns, k, static_cast<size_t>(first - set.begin()), false});
  }

  int64_t now_ns = window.begin_ns;
  uint64_t active = 0;
  const auto advance = [&](int64_t to_ns) {
    to_ns = std::min(to_ns, window.end_ns);
    if (to_ns <= now_ns) return;
    visit(Slice{{now_ns, to_ns}, active});
    now_ns = to_ns;
  };
  while (!edges.empty() && edges.top().at_ns < window.end_ns) {
    const Edge edge = edges.top();
    edges.pop();
    advance(edge.at_ns);
    const Intervals& set = *classes[edge.of_class];
    active ^= uint64_t{1} << edge.of_class;
    if (!edge.is_end) {
      edges.push({set[edge.interval].end_ns, edge.of_class, edge.interval, true});
    } else if (edge.interval + 1 < set.size()) {
      edges.push({set[edge.interval + 1].begin_ns, edge.of_class, edge.interval + 1, false});
    }
  }
  advance(window.end_ns);
}

}  // namespace

std::vector<Slice> Sweep(const std::vector<const Intervals*>& classes, Interval window) {
  std::vector<Slice> slices;
  VisitSlices(classes, window, [&](const Slice& slice) {
    if (!slices.empty() && slices.back().active == slice.active) {
      slices.back().time.end_ns = slice.time.end_ns;
    } else {
      slices.push_back(slice);
    }
  });
  return slices;
}

std::vector<int64_t> TotalsByPriority(const std::vector<const Intervals*>& classes, Interval window) {
  const auto count = static_cast<uint32_t>(std::min<size_t>(classes.size(), kMostClasses));
  std::vector<int64_t> totals(classes.size() + 1);
  VisitSlices(classes, window, [&](const Slice& slice) {
    const uint32_t first = FirstOf(slice.active, count);
    totals[first < count ? first : classes.size()] += slice.time.end_ns - slice.time.begin_ns;
  });
  return totals;
}

std::vector<Intervals> ExposedTimes(const std::vector<const Intervals*>& classes, Interval window) {
  std::vector<Intervals> exposed(classes.size());
  VisitSlices(classes, window, [&](const Slice& slice) {
    if (slice.active != 0) Append(slice.time, &exposed[FirstOf(slice.active, kMostClasses)]);
  });
  return exposed;
}

Intervals IdleTime(const std::vector<Slice>& slices) {
  Intervals idle;
  for (const Slice& slice : slices) {
    if (slice.active == 0) Append(slice.time, &idle);
  }
  return idle;
}

int64_t OverlapNs(const std::vector<Slice>& slices, uint64_t classes) {
  int64_t total_ns = 0;
  for (const Slice& slice : slices) {
    if ((slice.active & classes) == classes) total_ns += slice.time.end_ns - slice.time.begin_ns;
  }
  return total_ns;
}

}  // namespace model
PITOT_NAMESPACE_END
