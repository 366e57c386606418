// SPDX-License-Identifier: Apache-2.0
//
// Sends prompts to a decode server and notes the arrival of each token.
#ifndef SAMPLES_LOAD_GENERATOR_GENERATE_H_
#define SAMPLES_LOAD_GENERATOR_GENERATE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "load_generator/options.h"

namespace load_generator {

// Times are CLOCK_MONOTONIC, ns.
struct GenerateSample {
  uint64_t intended_ns = 0;  // when it should have been sent
  uint64_t sent_ns = 0;
  uint64_t done_ns = 0;
  std::vector<uint64_t> token_ns;  // when each token arrived
  size_t prompt_length = 0;
  size_t max_tokens = 0;
  bool is_long = false;
  bool is_burst = false;
  bool leaves_half_way = false;
  int status = 0;     // 0: no response
  std::string id;     // the server's x-request-id
  std::string error;  // why the response is missing or incomplete

  bool is_ok() const { return status == 200 && error.empty() && token_ns.size() == max_tokens; }
  uint64_t total_ns() const { return done_ns - intended_ns; }
  uint64_t first_token_ns() const { return token_ns.empty() ? 0 : token_ns.front() - intended_ns; }
  uint64_t longest_gap_ns() const;
};

struct GenerateRun {
  uint64_t begin_ns = 0;  // begin of the warm-up
  uint64_t measured_from_ns = 0;
  uint64_t end_ns = 0;                  // when the last response arrived
  std::vector<GenerateSample> samples;  // by intended_ns, including the warm-up
};

// Draws the prompts to send, the same for the same seed; times count from 0.
std::vector<GenerateSample> DrawPrompts(const Options& options);

// Throws std::runtime_error if the server does not answer at all.
GenerateRun SendPrompts(const Options& options);

}  // namespace load_generator

#endif  // SAMPLES_LOAD_GENERATOR_GENERATE_H_
