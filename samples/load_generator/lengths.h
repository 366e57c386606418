// SPDX-License-Identifier: Apache-2.0
//
// Lengths of prompts and outputs: mostly short, some long.
#ifndef SAMPLES_LOAD_GENERATOR_LENGTHS_H_
#define SAMPLES_LOAD_GENERATOR_LENGTHS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace load_generator {

// Log-normal, in tokens, at least 1.
struct LengthOptions {
  double mean = 48;    // before the limit `most`
  double sigma = 0.7;  // of the logarithm
  size_t most = 256;
};

std::vector<size_t> DrawLengths(const LengthOptions& options, size_t count, uint64_t seed);

}  // namespace load_generator

#endif  // SAMPLES_LOAD_GENERATOR_LENGTHS_H_
