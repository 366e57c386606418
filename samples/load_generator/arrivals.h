// SPDX-License-Identifier: Apache-2.0
//
// Arrival times of requests. They are drawn before the run, so that a slow server cannot slow its own load down.
#ifndef SAMPLES_LOAD_GENERATOR_ARRIVALS_H_
#define SAMPLES_LOAD_GENERATOR_ARRIVALS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace load_generator {

struct ArrivalOptions {
  double rate = 50;          // per second, Poisson
  double duration_s = 30;    // includes the warm-up
  size_t burst = 0;          // this many more at one instant...
  double burst_every_s = 5;  // ...at this distance
  double big_share = 0;      // share of requests that send a big picture
  uint64_t seed = 1;
};

struct Arrival {
  uint64_t at_ns = 0;  // from the begin
  bool is_big = false;
  bool is_burst = false;
};

// Sorted by time.
std::vector<Arrival> DrawArrivals(const ArrivalOptions& options);

}  // namespace load_generator

#endif  // SAMPLES_LOAD_GENERATOR_ARRIVALS_H_
