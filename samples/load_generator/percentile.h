// SPDX-License-Identifier: Apache-2.0
//
// Exact percentiles: no histogram, no interpolation.
#ifndef SAMPLES_LOAD_GENERATOR_PERCENTILE_H_
#define SAMPLES_LOAD_GENERATOR_PERCENTILE_H_

#include <cstdint>
#include <span>

namespace load_generator {

// Returns the smallest value that at least `quantile` of all values do not exceed (nearest rank); 0 without values.
// REQUIRES: `sorted` ascending, 0 <= quantile <= 1.
uint64_t Percentile(std::span<const uint64_t> sorted, double quantile);

inline double Ms(uint64_t ns) { return static_cast<double>(ns) * 1e-6; }

}  // namespace load_generator

#endif  // SAMPLES_LOAD_GENERATOR_PERCENTILE_H_
