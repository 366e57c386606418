// SPDX-License-Identifier: Apache-2.0
//
// The cost of a depth: works recorded at it against works recorded at scopes only, from rounds of a switchback with
// both. docs/reference/governor.md has the formulas and their sources.
#ifndef PITOT_LIB_GOVERNOR_CONTRAST_H_
#define PITOT_LIB_GOVERNOR_CONTRAST_H_

#include <stdint.h>

namespace pitot::governor {

// Works of an average block of one depth in a round.
struct Tally {
  double works = 0;
  double time = 0;  // the sum of their durations, in means of their classes
  double slow = 0;  // number of works beyond their class's p99
};

// An overhead as a fraction (0.01 is 1 %), with its 95 % interval.
struct Overhead {
  bool is_known = false;  // there are enough rounds for an interval; otherwise only `value` is set, if there are any
  double value = 0;
  double low = 0, high = 0;
};

// Rounds of one depth, older ones counting less. Not thread-safe. Memory: 400 bytes. Cost: Add 50 ns, Mean and Tail 0.1
// us.
class Contrast {
 public:
  // Fewer rounds give no interval: with fewer degrees of freedom, Student's t would make it too wide to decide
  // anything.
  static constexpr double kLeastRounds = 8;
  // Fewer works beyond the p99, in either arm, give no interval of the tail: their number is far from normal.
  static constexpr double kLeastSlow = 10;

  explicit Contrast(int64_t half_life_ns) noexcept : half_life_ns_(half_life_ns) {}

  void Add(int64_t now_ns, const Tally& deep, const Tally& reference) noexcept;
  // Takes the other's knowledge in place of its own; goes on forgetting at its own pace.
  void Become(const Contrast& other) noexcept;

  // Its worth in rounds of today's weight; falls without new rounds.
  double Rounds(int64_t now_ns) const noexcept;
  // Works behind it, of today's weight as well, of the arm with fewer.
  double Works(int64_t now_ns) const noexcept;
  // Works beyond their p99 behind it, of the arm with fewer.
  double Slow(int64_t now_ns) const noexcept;
  // The overhead on the mean duration.
  Overhead Mean(int64_t now_ns) const noexcept;
  // The overhead on the p99 of the durations, for a tail as steep as this.
  Overhead Tail(int64_t now_ns, double steepness) const noexcept;

 private:
  enum Term : uint8_t { kDeepWorks, kDeepTime, kDeepSlow, kReferenceWorks, kReferenceTime, kReferenceSlow, kTerms };

  // The rest of a weight of 1.
  double Fade(int64_t now_ns) const noexcept;
  // Variance of the mean of a sum with these weights, over rounds.
  double Variance(const double (&weights)[kTerms], double rounds) const noexcept;

  // Weighted sums over rounds.
  struct Sums {
    int64_t last_ns = 0;
    double weight = 0, squared_weight = 0;
    double mean[kTerms] = {};               // a round's
    double deviation[kTerms][kTerms] = {};  // products of deviations from them
  };

  int64_t half_life_ns_;
  Sums sums_;
};

}  // namespace pitot::governor

#endif  // PITOT_LIB_GOVERNOR_CONTRAST_H_
