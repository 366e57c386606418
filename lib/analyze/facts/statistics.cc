// SPDX-License-Identifier: Apache-2.0
#include "analyze/facts/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/quantile.h"

namespace pitot::facts {
namespace {

constexpr double kZ = 1.959963984540054;  // 95 % of a normal distribution are within so many sigmas
constexpr size_t kMostBlocks = 2048;
constexpr size_t kMostQuantiles = 1000;

// Ranks from 1 on; equal values share their mean.
std::vector<double> Ranks(const std::vector<double>& values, double* ties) {
  std::vector<uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  *ties = 0;
  for (size_t i = 0; i < order.size();) {
    size_t end = i + 1;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    const auto equal = static_cast<double>(end - i);
    for (size_t k = i; k < end; ++k) ranks[order[k]] = static_cast<double>(i + end + 1) / 2;
    *ties += equal * equal * equal - equal;
    i = end;
  }
  return ranks;
}

// The sorted values, or so many quantiles of them.
std::vector<double> Thinned(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  if (values.size() <= kMostQuantiles) return values;
  std::vector<double> thin;
  for (size_t i = 0; i < kMostQuantiles; ++i)
    thin.push_back(values[(2 * i + 1) * values.size() / (2 * kMostQuantiles)]);
  return thin;
}

}  // namespace

double Inflation(const std::vector<double>& values) {
  double ties = 0;
  const std::vector<double> ranks = Ranks(values, &ties);
  const auto n = static_cast<double>(ranks.size());
  const double mean = (n + 1) / 2, alone = (n * n * n - n - ties) / 12;  // the sum of squares
  if (alone <= 0) return 1;
  const size_t size = (ranks.size() + kMostBlocks - 1) / kMostBlocks;
  std::vector<double> blocks;  // sums of ranks minus their mean
  for (size_t i = 0; i + size <= ranks.size(); i += size) {
    const auto begin = ranks.begin() + static_cast<std::ptrdiff_t>(i);
    blocks.push_back(std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(size), 0.0) -
                     static_cast<double>(size) * mean);
  }
  const auto together = [&](size_t lag) {
    double sum = 0;
    for (size_t i = lag; i < blocks.size(); ++i) sum += blocks[i] * blocks[i - lag];
    return sum / alone;
  };
  double inflation = -together(0);
  for (size_t lag = 0; lag + 1 < blocks.size(); lag += 2) {
    const double pair = together(lag) + together(lag + 1);
    if (pair <= 0) break;
    inflation += 2 * pair;
  }
  return std::max(inflation, 1.0);
}

double MannWhitney(const std::vector<double>& a, const std::vector<double>& b, double inflation) {
  if (a.size() < kLeastValues || b.size() < kLeastValues) return 1;
  std::vector<double> all = a;
  all.insert(all.end(), b.begin(), b.end());
  double ties = 0;
  const std::vector<double> ranks = Ranks(all, &ties);
  const auto n = static_cast<double>(a.size()), m = static_cast<double>(b.size());
  const double u =
      std::accumulate(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(a.size()), 0.0) - n * (n + 1) / 2;
  const double variance = n * m / 12 * (n + m + 1 - ties / ((n + m) * (n + m - 1))) * inflation;
  if (variance <= 0) return 1;
  const double z = std::max(0.0, std::fabs(u - n * m / 2) - 0.5) / std::sqrt(variance);
  return std::erfc(z / std::sqrt(2.0));
}

std::vector<bool> Discoveries(const std::vector<double>& p, double q) {
  std::vector<double> sorted = p;
  std::sort(sorted.begin(), sorted.end());
  double most = -1;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] <= q * static_cast<double>(i + 1) / static_cast<double>(sorted.size())) most = sorted[i];
  }
  std::vector<bool> found(p.size());
  for (size_t i = 0; i < p.size(); ++i) found[i] = p[i] <= most;
  return found;
}

Estimate Shift(std::vector<double> before, std::vector<double> after, double inflation) {
  Estimate shift;
  if (before.size() < kLeastValues || after.size() < kLeastValues) return shift;
  const auto n = static_cast<double>(before.size()), m = static_cast<double>(after.size());
  before = Thinned(std::move(before));
  after = Thinned(std::move(after));
  std::vector<double> differences;
  differences.reserve(before.size() * after.size());
  for (const double x : before) {
    for (const double y : after) differences.push_back(y - x);
  }
  const double half = kZ * std::sqrt((n + m + 1) / (12 * n * m) * inflation);
  const auto pairs = static_cast<double>(differences.size());
  const auto at = [&](double share) {
    const auto rank = static_cast<std::ptrdiff_t>(std::clamp(share * pairs, 0.0, pairs - 1));
    std::nth_element(differences.begin(), differences.begin() + rank, differences.end());
    return differences[static_cast<size_t>(rank)];
  };
  shift = {half < 0.5, at(0.5), at(0.5 - half), at(0.5 + half)};
  return shift;
}

Estimate Quantile(const std::vector<double>& values, double q) {
  if (values.empty()) return {};
  const double value = base::Quantile(values, q);
  std::vector<double> is_above, sorted = values;
  for (const double one : values) is_above.push_back(one > value ? 1 : 0);
  std::sort(sorted.begin(), sorted.end());
  const auto n = static_cast<double>(values.size());
  const double half = kZ * std::sqrt(n * q * (1 - q) * Inflation(is_above));
  const auto at = [&](double rank) { return sorted[static_cast<size_t>(std::clamp(rank, 1.0, n)) - 1]; };
  const double low = std::floor(n * q - half), high = std::ceil(n * q + half) + 1;
  return {low >= 1 && high <= n, value, at(low), at(high)};
}

double KolmogorovSmirnov(std::vector<double> a, std::vector<double> b) {
  if (a.empty() || b.empty()) return 1;
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  const auto n = static_cast<double>(a.size()), m = static_cast<double>(b.size());
  double farthest = 0;
  for (size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    const double at = std::min(a[i], b[k]);
    while (i < a.size() && a[i] == at) ++i;
    while (k < b.size() && b[k] == at) ++k;
    farthest = std::max(farthest, std::fabs(static_cast<double>(i) / n - static_cast<double>(k) / m));
  }
  const double root = std::sqrt(n * m / (n + m)), x = (root + 0.12 + 0.11 / root) * farthest;
  if (x < 0.2) return 1;
  double p = 0;
  for (int j = 1; j <= 100; ++j) p += (j % 2 == 1 ? 2 : -2) * std::exp(-2.0 * j * j * x * x);
  return std::clamp(p, 0.0, 1.0);
}

}  // namespace pitot::facts
