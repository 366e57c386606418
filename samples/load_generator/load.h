// SPDX-License-Identifier: Apache-2.0
//
// Sends the load and notes the result of each request.
#ifndef SAMPLES_LOAD_GENERATOR_LOAD_H_
#define SAMPLES_LOAD_GENERATOR_LOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "load_generator/options.h"

namespace load_generator {

// Times are CLOCK_MONOTONIC, ns.
struct Sample {
  uint64_t intended_ns = 0;  // when it should have been sent; closed loop: when it was sent
  uint64_t sent_ns = 0;
  uint64_t done_ns = 0;
  int status = 0;  // 0: no response
  bool is_big = false;
  bool is_burst = false;
  std::string id;     // the server's x-request-id
  std::string error;  // why there is no response

  uint64_t latency_ns() const { return done_ns - intended_ns; }
};

struct Run {
  uint64_t begin_ns = 0;  // begin of the warm-up
  uint64_t measured_from_ns = 0;
  uint64_t end_ns = 0;          // when the last response arrived
  std::vector<Sample> samples;  // by intended_ns, including the warm-up
};

// Throws std::runtime_error if the server does not answer at all.
Run SendLoad(const Options& options);

}  // namespace load_generator

#endif  // SAMPLES_LOAD_GENERATOR_LOAD_H_
