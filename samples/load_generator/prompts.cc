// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <random>

#include "load_generator/arrivals.h"
#include "load_generator/generate.h"
#include "load_generator/lengths.h"

namespace load_generator {

uint64_t GenerateSample::longest_gap_ns() const {
  uint64_t longest_ns = 0;
  for (size_t i = 1; i < token_ns.size(); ++i) longest_ns = std::max(longest_ns, token_ns[i] - token_ns[i - 1]);
  return longest_ns;
}

std::vector<GenerateSample> DrawPrompts(const Options& options) {
  const uint64_t seed = options.arrivals.seed;
  const std::vector<Arrival> arrivals = DrawArrivals(options.arrivals);
  const std::vector<size_t> prompts = DrawLengths(options.prompt, arrivals.size(), seed * 31 + 1);
  const std::vector<size_t> outputs = DrawLengths(options.output, arrivals.size(), seed * 31 + 2);
  std::mt19937_64 random(seed * 31 + 3);
  std::bernoulli_distribution leaves(options.cancel_share);
  std::vector<GenerateSample> samples;
  for (size_t i = 0; i < arrivals.size(); ++i) {
    GenerateSample sample;
    sample.intended_ns = arrivals[i].at_ns;
    sample.is_long = arrivals[i].is_big;
    sample.is_burst = arrivals[i].is_burst;
    sample.prompt_length = sample.is_long ? options.long_prompt : prompts[i];
    sample.max_tokens = outputs[i];
    sample.leaves_half_way = leaves(random);
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace load_generator
