// SPDX-License-Identifier: Apache-2.0
//
// The statistics of comparisons: is one sample larger than another, by how much, and how sure? By ranks alone, because
// means and variances say nothing about the tails of latencies.
#ifndef PITOT_LIB_ANALYZE_FACTS_STATISTICS_H_
#define PITOT_LIB_ANALYZE_FACTS_STATISTICS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "pitot/export.h"

namespace pitot::facts {

// Fewer values on a side prove nothing: with 4 and 4 the least p of a rank test is .03.
inline constexpr size_t kLeastValues = 4;

// A number and its 95 % interval.
struct Estimate {
  bool is_known = false;
  double value = 0, low = 0, high = 0;
};

// The nearest number from 0 to 1; 0 if it is not a number. Confidence computed from damaged evidence may be anything.
inline double NearestProbability(double number) { return number > 0 ? std::min(number, 1.0) : 0; }

// How many times larger the variance of the mean rank is than for independent values: 1 + 2 (r1 + r2 + ...), at least
// 1. Each r is the correlation of ranks 1, 2, ... apart; they are added in pairs while these are positive (Geyer 1992,
// the initial positive sequence). Needs `values` in the order of time: requests that wait behind each other, or that a
// busy machine held up together, are not independent. O(n log n), and 2,048^2 where all are alike for long.
double Inflation(const std::vector<double>& values);

// The two-sided p of Mann and Whitney's U, 1 where a side has fewer than kLeastValues. By the normal approximation,
// corrected for ties and continuity, with `inflation` times the variance. O(n log n).
double MannWhitney(const std::vector<double>& a, const std::vector<double>& b, double inflation);

// Which of `p` are discoveries at a false discovery rate of `q` (Benjamini and Hochberg). O(n log n).
std::vector<bool> Discoveries(const std::vector<double>& p, double q);

// The shift from `before` to `after`: the median of all differences and its interval (Hodges and Lehmann), with at most
// 1,000 quantiles a side. O(n log n + 10^6).
Estimate Shift(std::vector<double> before, std::vector<double> after, double inflation);

// A quantile and the order statistics n q -+ 1.96 sqrt(n q (1 - q) inflation) around it; unknown where these are beyond
// the ends. The inflation is computed from which values are above it. `values` are in the order of time. O(Inflation).
Estimate Quantile(const std::vector<double>& values, double q);

// The probability that two samples of one distribution differ as much in any quantile; 1 where a side is empty.
// Kolmogorov and Smirnov's asymptotic form: too large where values are equal, which is the safe side. O(n log n).
double KolmogorovSmirnov(std::vector<double> a, std::vector<double> b);

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_STATISTICS_H_
