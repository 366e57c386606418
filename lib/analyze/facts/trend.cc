// SPDX-License-Identifier: Apache-2.0
#include "analyze/facts/trend.h"

#include <algorithm>
#include <cmath>

#include "base/quantile.h"

namespace pitot::facts {
namespace {

constexpr size_t kLeast = 8;

}  // namespace

Trend FindTrend(const std::vector<double>& values) {
  Trend trend;
  const size_t n = values.size();
  std::vector<double> slopes, sorted = values;
  double score = 0;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = i + 1; j < n; ++j) {
      slopes.push_back((values[j] - values[i]) / static_cast<double>(j - i));
      score += values[j] > values[i] ? 1 : values[j] < values[i] ? -1 : 0;
    }
  }
  trend.slope = base::Median(std::move(slopes));
  trend.level = base::Median(sorted);
  std::sort(sorted.begin(), sorted.end());
  if (n < kLeast) return trend;
  const auto term = [](size_t count) {
    const auto k = static_cast<double>(count);
    return k * (k - 1) * (2 * k + 5);
  };
  double variance = term(n);
  for (size_t first = 0, last; first < n; first = last) {
    for (last = first + 1; last < n && sorted[last] == sorted[first];) ++last;
    variance -= term(last - first);
  }
  if (variance <= 0) return trend;  // all are equal
  const double z = std::max(0.0, std::abs(score) - 1) / std::sqrt(variance / 18);
  trend.p = std::erfc(z / std::sqrt(2.0));
  return trend;
}

}  // namespace pitot::facts
