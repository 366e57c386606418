// SPDX-License-Identifier: Apache-2.0
//
// The order of a table's rows, for the readers of files in any order.
#ifndef PITOT_LIB_READ_ROW_ORDER_H_
#define PITOT_LIB_READ_ROW_ORDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

namespace pitot::read {

// Sorts rows, and keeps equal ones in order. Fast for a few runs that are sorted already, as tables of files are.
template <class IsBefore>
void MergeRuns(std::vector<uint32_t>::iterator first, std::vector<uint32_t>::iterator last, const IsBefore& is_before) {
  std::vector<std::vector<uint32_t>::iterator> ends = {first};  // of the runs
  while (ends.back() != last) ends.push_back(std::is_sorted_until(ends.back(), last, is_before));
  while (ends.size() > 2) {
    size_t kept = 1;
    for (size_t run = 0; run + 1 < ends.size(); run += 2) {
      const auto end = ends[std::min(run + 2, ends.size() - 1)];
      std::inplace_merge(ends[run], ends[run + 1], end, is_before);
      ends[kept++] = end;
    }
    ends.resize(kept);
  }
}

// Rows by group, which is below `groups`, then by `is_before`; equal rows keep their order in the file. Empty if they
// are sorted already. Files are mostly in order within a group.
template <class IsBefore>
std::vector<uint32_t> OrderOf(const std::vector<uint32_t>& group, size_t groups, const IsBefore& is_before) {
  const auto size = static_cast<uint32_t>(group.size());
  bool is_ordered = true;
  for (uint32_t row = 1; row < size && is_ordered; ++row)
    is_ordered = group[row - 1] != group[row] ? group[row - 1] < group[row] : !is_before(row, row - 1);
  if (is_ordered) return {};
  std::vector<uint32_t> next(groups + 1), order(size);
  for (const uint32_t of : group) ++next[of + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  for (uint32_t row = 0; row < size; ++row) order[next[group[row]]++] = row;
  for (auto first = order.begin(), last = first; first != order.end(); first = last) {
    last = order.begin() + next[group[*first]];
    MergeRuns(first, last, is_before);
  }
  return order;
}

// Puts columns into another order, one at a time: they are most of the memory of a large trace.
template <class... T> void Reorder(const std::vector<uint32_t>& order, std::vector<T>*... columns) {
  if (order.empty()) return;
  const auto reorder = [&](auto* column) {
    std::remove_pointer_t<decltype(column)> sorted(order.size());
    for (size_t row = 0; row < order.size(); ++row) sorted[row] = std::move((*column)[order[row]]);
    column->swap(sorted);
  };
  (reorder(columns), ...);
}

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_ROW_ORDER_H_
