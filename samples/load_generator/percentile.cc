// SPDX-License-Identifier: Apache-2.0
#include "load_generator/percentile.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace load_generator {

uint64_t Percentile(std::span<const uint64_t> sorted, double quantile) {
  if (sorted.empty()) return 0;
  const double count = static_cast<double>(sorted.size());
  // In floating point 0.99 * 100 is 99.00000000000001, which must not become rank 100.
  const double rank = std::ceil(quantile * count - 1e-9 * count);
  return sorted[static_cast<size_t>(std::clamp(rank, 1.0, count)) - 1];
}

}  // namespace load_generator
