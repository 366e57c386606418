// SPDX-License-Identifier: Apache-2.0
#include "analyze/diff/change.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pitot::diff {
namespace {

__extension__ typedef __int128 Wide;

std::vector<int64_t> Means(const std::vector<int64_t>& totals, int64_t n) {
  std::vector<int64_t> means;
  Wide left = 0;
  for (const int64_t total : totals) {
    means.push_back(total / n);
    left += total % n;
  }
  std::vector<uint32_t> order(totals.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return totals[a] % n > totals[b] % n; });
  const auto ones = static_cast<size_t>((left + n / 2) / n);
  for (size_t i = 0; i < std::min(ones, order.size()); ++i) ++means[order[i]];
  return means;
}

double MeanDuration(const Amount& amount) {
  return 1e6 * static_cast<double>(amount.total_ns) / static_cast<double>(amount.count_millionths);
}

}  // namespace

std::vector<Change> SplitChanges(const std::vector<AmountPair>& keys, uint64_t requests_before,
                                 uint64_t requests_after) {
  const auto n1 = static_cast<int64_t>(requests_before), n2 = static_cast<int64_t>(requests_after);
  std::vector<int64_t> before, after;
  for (const AmountPair& key : keys) before.push_back(key.before.total_ns), after.push_back(key.after.total_ns);
  before = Means(before, n1);
  after = Means(after, n2);
  std::vector<Change> changes;
  for (size_t k = 0; k < keys.size(); ++k) {
    const auto& [a, b] = keys[k];
    Change change = {before[k], after[k], 0, 0};
    const int64_t all_ns = change.after_ns - change.before_ns;
    const bool is_one_sided = a.count_millionths == 0 || b.count_millionths == 0;
    if (is_one_sided || Wide{a.total_ns} * b.count_millionths == Wide{b.total_ns} * a.count_millionths) {
      change.count_effect_ns = all_ns;
    } else if (Wide{a.count_millionths} * n2 != Wide{b.count_millionths} * n1) {
      const double more = (static_cast<double>(b.count_millionths) / static_cast<double>(n2) -
                           static_cast<double>(a.count_millionths) / static_cast<double>(n1)) *
                          1e-6;
      change.count_effect_ns = std::llround(more * (MeanDuration(a) + MeanDuration(b)) / 2);
    }
    change.duration_effect_ns = all_ns - change.count_effect_ns;
    changes.push_back(change);
  }
  return changes;
}

}  // namespace pitot::diff
