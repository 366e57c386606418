// SPDX-License-Identifier: Apache-2.0
//
// Quantiles, by one definition everywhere: linear between ranks, the one that q (n - 1) falls between (definition 7 of
// Hyndman and Fan 1996; what numpy.quantile does). The median of an even number is the mean of the two in the middle.
// Not by it: thresholds of triggers, which are kept in buckets (trigger/quantile_cells.h: the same rank, to 2.8 %), and
// the governor's p99, which must be a sample that one of a hundred is at or beyond.
#ifndef PITOT_LIB_BASE_QUANTILE_H_
#define PITOT_LIB_BASE_QUANTILE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

namespace pitot::base {

// Times the median absolute deviation it is sigma, of a normal distribution.
inline constexpr double kMadToSigma = 1.4826;

// Of the values from `begin` to `end`, at least one, in any order; reorders them. `q` is 0 to 1. Of whole numbers
// rounded. O(n), allocates nothing.
template <class It> auto QuantileOf(It begin, It end, double q) noexcept {
  using T = typename std::iterator_traits<It>::value_type;
  const double rank = q * static_cast<double>(end - begin - 1);
  const auto below = static_cast<std::ptrdiff_t>(rank);
  const It at = begin + below;
  std::nth_element(begin, at, end);
  const double part = rank - static_cast<double>(below);
  if (part <= 0 || at + 1 == end) return *at;
  const double step = part * (static_cast<double>(*std::min_element(at + 1, end)) - static_cast<double>(*at));
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(*at + static_cast<T>(std::llround(step)));
  else
    return static_cast<T>(*at + static_cast<T>(step));
}

// 0 of none. O(n).
template <class T> T Quantile(std::vector<T> values, double q) {
  return values.empty() ? T() : QuantileOf(values.begin(), values.end(), q);
}
template <class T> T Median(std::vector<T> values) { return Quantile(std::move(values), 0.5); }

// Of values with weights: the least that, with those below it, weighs `q` of all. 0 of none. O(n log n).
inline double WeightedQuantile(std::vector<std::pair<double, int64_t>> values, double q) {
  std::sort(values.begin(), values.end());
  double all = 0, seen = 0;
  for (const auto& [value, weight] : values) all += static_cast<double>(weight);
  for (const auto& [value, weight] : values) {
    seen += static_cast<double>(weight);
    if (seen >= q * all) return value;
  }
  return values.empty() ? 0 : values.back().first;
}

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_QUANTILE_H_
