// SPDX-License-Identifier: Apache-2.0
//
// Sorts rows that are mostly in order, as a trace's are by stream or thread.
#ifndef PITOT_LIB_BASE_SORT_RUNS_H_
#define PITOT_LIB_BASE_SORT_RUNS_H_

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

namespace pitot::base {

// Like std::stable_sort. If `rows` consist of r sorted stretches: O(n log r), a single pass if r is 1.
template <class Row, class Before> void SortRuns(std::vector<Row>* rows, const Before& before) {
  using Difference = std::ptrdiff_t;
  std::vector<Difference> ends;
  const auto size = static_cast<Difference>(rows->size());
  for (Difference i = 1; i <= size; ++i) {
    if (i != size && !before((*rows)[static_cast<size_t>(i)], (*rows)[static_cast<size_t>(i) - 1])) continue;
    ends.push_back(i);
    if (ends.size() > 64 && ends.size() > rows->size() / 16) {  // hardly in order: merging gains nothing
      std::stable_sort(rows->begin(), rows->end(), before);
      return;
    }
  }
  std::vector<Row> merged;
  while (ends.size() > 1) {
    merged.clear();
    merged.reserve(rows->size());
    std::vector<Difference> merged_ends;
    Difference begin = 0;
    for (size_t i = 0; i < ends.size(); i += 2) {
      const Difference middle = ends[i], end = i + 1 < ends.size() ? ends[i + 1] : middle;
      std::merge(rows->begin() + begin, rows->begin() + middle, rows->begin() + middle, rows->begin() + end,
                 std::back_inserter(merged), before);
      merged_ends.push_back(end);
      begin = end;
    }
    std::swap(*rows, merged);
    std::swap(ends, merged_ends);
  }
}

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_SORT_RUNS_H_
