// SPDX-License-Identifier: Apache-2.0
//
// How the time of a batch depends on its size: the Universal Scalability Law (Gunther 1993, 2007).
#ifndef PITOT_LIB_ANALYZE_FACTS_SCALING_LAW_H_
#define PITOT_LIB_ANALYZE_FACTS_SCALING_LAW_H_

#include <cstdint>
#include <map>
#include <vector>

#include "pitot/export.h"

namespace pitot::facts {

// Throughput X(N) = rate * N / (1 + serial * (N - 1) + crosstalk * N * (N - 1)). So the time of N at once is a
// polynomial in N. It is fitted, without negative terms, to the median time of each N, weighted by the number of
// samples.
struct ScalingLaw {
  double one_ns = 0;     // of N = 1
  double serial = 0;     // 0: N take as long as one; 1: N times as long
  double crosstalk = 0;  // above 0 throughput falls beyond a peak
  double TimeNs(double n) const { return one_ns * (1 + serial * (n - 1) + crosstalk * n * (n - 1)); }
  // The N with the most throughput; infinite if throughput only grows.
  double Peak() const;
  // The same among whole numbers up to `most`.
  uint32_t Best(uint32_t most) const;
  // How much more throughput `n` have than `other`, as a share of the other's.
  double Gain(uint32_t n, uint32_t other) const { return n * TimeNs(other) / (other * TimeNs(n)) - 1; }
};
// Fits times in ns by N. Needs three values of N; otherwise one_ns is 0.
ScalingLaw FitScaling(const std::map<uint32_t, std::vector<double>>& times);

// The law, and its lower bounds with 95 % confidence by the bootstrap: 200 draws of as many samples of each N.
struct SureScalingLaw {
  ScalingLaw law;
  uint32_t best = 0;  // of those up to the largest
  double least_serial = 0;
  double least_gain = 0;  // of the best over the largest
};
SureScalingLaw FitSurely(const std::map<uint32_t, std::vector<double>>& times);

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_SCALING_LAW_H_
