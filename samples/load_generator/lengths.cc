// SPDX-License-Identifier: Apache-2.0
#include "load_generator/lengths.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace load_generator {

std::vector<size_t> DrawLengths(const LengthOptions& options, size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> length(std::log(options.mean) - options.sigma * options.sigma / 2, options.sigma);
  std::vector<size_t> lengths(count);
  for (size_t& value : lengths) {
    value = static_cast<size_t>(std::clamp(std::round(length(random)), 1.0, static_cast<double>(options.most)));
  }
  return lengths;
}

}  // namespace load_generator
