// SPDX-License-Identifier: Apache-2.0
#include "load_generator/arrivals.h"

#include <algorithm>
#include <random>

namespace load_generator {

std::vector<Arrival> DrawArrivals(const ArrivalOptions& options) {
  std::mt19937_64 random(options.seed);
  std::exponential_distribution<double> gap_s(options.rate);
  std::bernoulli_distribution is_big(options.big_share);

  std::vector<Arrival> arrivals;
  for (double at_s = gap_s(random); at_s < options.duration_s; at_s += gap_s(random)) {
    arrivals.push_back({static_cast<uint64_t>(at_s * 1e9), is_big(random), false});
  }
  if (options.burst > 0) {
    for (double at_s = options.burst_every_s; at_s < options.duration_s; at_s += options.burst_every_s) {
      const Arrival arrival{static_cast<uint64_t>(at_s * 1e9), false, true};
      arrivals.insert(arrivals.end(), options.burst, arrival);
    }
  }
  std::stable_sort(arrivals.begin(), arrivals.end(),
                   [](const Arrival& a, const Arrival& b) { return a.at_ns < b.at_ns; });
  return arrivals;
}

}  // namespace load_generator
