// SPDX-License-Identifier: Apache-2.0
//
// Quantiles, by one definition everywhere: linear between the two ranks around q (n - 1), as numpy.quantile (definition
// 7 of Hyndman and Fan 1996). The median of an even number of values is the mean of the middle two. There are two
// exceptions. Thresholds of triggers are kept in buckets (trigger/quantile_cells.h: the same rank, to 2.8 %). The
// governor's p99 must be a sample, one that 1 % of all reach or exceed.
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

// Sigma of a normal distribution is this times its median absolute deviation.
inline constexpr double kMadToSigma = 1.4826;

// The quantile of the values from `begin` to `end`: at least one, in any order; reorders them. `q` is 0 to 1. The
// result for integers is rounded. O(n), allocates nothing.
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

// 0 for no values. O(n).
template <class T> T Quantile(std::vector<T> values, double q) {
  return values.empty() ? T() : QuantileOf(values.begin(), values.end(), q);
}
template <class T> T Median(std::vector<T> values) { return Quantile(std::move(values), 0.5); }

// The share of ascending values that are at most `value`; 1 for no values.
template <class T> double ShareUpTo(const std::vector<T>& ascending, T value) {
  if (ascending.empty()) return 1;
  const auto after = std::upper_bound(ascending.begin(), ascending.end(), value);
  return static_cast<double>(after - ascending.begin()) / static_cast<double>(ascending.size());
}

// For values with weights: the smallest one that, with those below it, has a share `q` of the weight. 0 for no values.
// O(n log n).
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
