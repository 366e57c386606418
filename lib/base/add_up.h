// SPDX-License-Identifier: Apache-2.0
//
// Rounds numbers for printing: if they add up, they still add up as printed.
#ifndef PITOT_LIB_BASE_ADD_UP_H_
#define PITOT_LIB_BASE_ADD_UP_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace pitot::base {

// Rounds to the nearest; halves away from 0, as people round.
inline int64_t RoundTo(int64_t value, int64_t unit) { return (value + (value < 0 ? -unit / 2 : unit / 2)) / unit; }

// Returns parts in whole units that add up to `units`. Each is off by less than one if the parts add up to about that.
// Units lost by rounding down go to the parts with the largest remainders; among equals to the first.
inline std::vector<int64_t> RoundToAddUp(const std::vector<int64_t>& parts, int64_t unit, int64_t units) {
  std::vector<int64_t> rounded;
  for (const int64_t part : parts) rounded.push_back(part / unit - (part % unit < 0 ? 1 : 0));
  std::vector<size_t> order(parts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto lost = [&](size_t i) { return parts[i] - rounded[i] * unit; };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return lost(a) > lost(b); });
  int64_t left = units - std::accumulate(rounded.begin(), rounded.end(), int64_t{0});
  for (size_t i = 0; left > 0 && !order.empty(); i = (i + 1) % order.size(), --left) ++rounded[order[i]];
  for (size_t i = 0; left < 0 && !order.empty(); i = (i + 1) % order.size(), ++left)
    --rounded[order[order.size() - 1 - i]];
  return rounded;
}

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_ADD_UP_H_
