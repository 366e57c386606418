// SPDX-License-Identifier: Apache-2.0
//
// The order of a table's rows, for the readers of files in any order.
#ifndef PITOT_LIB_READ_ROW_ORDER_H_
#define PITOT_LIB_READ_ROW_ORDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

namespace pitot::read {

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
    if (!std::is_sorted(first, last, is_before))
      std::sort(first, last, [&](uint32_t a, uint32_t b) { return is_before(a, b) || (!is_before(b, a) && a < b); });
  }
  return order;
}

// Puts columns into another order, in place: they are most of the memory of a large trace.
template <class... T> void Reorder(std::vector<uint32_t> order, std::vector<T>*... columns) {
  for (uint32_t first = 0; first < order.size(); ++first) {
    if (order[first] == first) continue;
    const std::tuple<T...> values((*columns)[first]...);
    uint32_t to = first;
    for (uint32_t from; (from = std::exchange(order[to], to)) != first; to = from)
      (((*columns)[to] = (*columns)[from]), ...);
    std::apply([&](const T&... value) { (((*columns)[to] = value), ...); }, values);
  }
}

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_ROW_ORDER_H_
