// SPDX-License-Identifier: Apache-2.0
#include "pitot/model/intervals.h"

#include <algorithm>

#include "base/sort_runs.h"

PITOT_NAMESPACE_BEGIN
namespace model {

Intervals Union(std::vector<Interval> intervals) {
  const auto is_before = [](const Interval& a, const Interval& b) { return a.begin_ns < b.begin_ns; };
  base::SortRuns(&intervals, is_before);  // millions of them, from a few sorted threads or streams
  size_t kept = 0;
  for (const Interval& interval : intervals) {
    if (interval.end_ns <= interval.begin_ns) continue;
    if (kept != 0 && interval.begin_ns <= intervals[kept - 1].end_ns) {
      intervals[kept - 1].end_ns = std::max(intervals[kept - 1].end_ns, interval.end_ns);
    } else {
      intervals[kept++] = interval;
    }
  }
  intervals.resize(kept);
  if (kept < intervals.capacity() / 2) intervals.shrink_to_fit();  // sets are kept
  return intervals;
}

Intervals Intersection(const Intervals& a, const Intervals& b) {
  Intervals both;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const int64_t begin_ns = std::max(a[i].begin_ns, b[j].begin_ns), end_ns = std::min(a[i].end_ns, b[j].end_ns);
    if (begin_ns < end_ns) both.push_back({begin_ns, end_ns});
    ++(a[i].end_ns < b[j].end_ns ? i : j);
  }
  return both;
}

Intervals Difference(const Intervals& a, const Intervals& b) {
  Intervals rest;
  size_t j = 0;
  for (const Interval& interval : a) {
    int64_t begin_ns = interval.begin_ns;
    while (j < b.size() && b[j].end_ns <= begin_ns) ++j;
    for (size_t k = j; k < b.size() && b[k].begin_ns < interval.end_ns; ++k) {
      if (b[k].begin_ns > begin_ns) rest.push_back({begin_ns, b[k].begin_ns});
      begin_ns = b[k].end_ns;
    }
    if (begin_ns < interval.end_ns) rest.push_back({begin_ns, interval.end_ns});
  }
  return rest;
}

int64_t TotalNs(const Intervals& set) {
  int64_t total_ns = 0;
  for (const Interval& interval : set) total_ns += interval.end_ns - interval.begin_ns;
  return total_ns;
}

}  // namespace model
PITOT_NAMESPACE_END
