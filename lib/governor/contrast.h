// SPDX-License-Identifier: Apache-2.0
//
// What a depth costs: works recorded at it against works recorded at scopes only, from rounds of a switchback that have
// both. docs/reference/governor.md has the formulas and where they are from.
#ifndef PITOT_LIB_GOVERNOR_CONTRAST_H_
#define PITOT_LIB_GOVERNOR_CONTRAST_H_

#include <stdint.h>

namespace pitot::governor {

// Works of one depth in a round, an average block's.
struct Tally {
  double works = 0;
  double time = 0;  // the sum of their durations, in means of their classes
  double slow = 0;  // how many were beyond their class's p99
};

// An overhead as a fraction (0.01 is 1 %), with its 95 % interval.
struct Overhead {
  bool is_known = false;  // there are rounds enough for an interval; else only `value` is set, if there are any
  double value = 0;
  double low = 0, high = 0;
};

// Rounds of one depth, older ones counting less. Not thread-safe. Memory: 400 bytes. Cost: Add 50 ns, Mean and Tail 0.1
// us.
class Contrast {
 public:
  // Fewer rounds give no interval: of Student's t with fewer degrees of freedom it would be too wide to decide
  // anything.
  static constexpr double kLeastRounds = 8;
  // Fewer works beyond the p99, in either arm, give none for the tail: their number is far from normal.
  static constexpr double kLeastSlow = 10;

  explicit Contrast(int64_t half_life_ns) noexcept : half_life_ns_(half_life_ns) {}

  void Add(int64_t now_ns, const Tally& deep, const Tally& reference) noexcept;
  // Forgets what it knows for what the other knows; goes on forgetting at its own pace.
  void Become(const Contrast& other) noexcept;

  // How many rounds of today's weight it is worth; falls when no more come.
  double Rounds(int64_t now_ns) const noexcept;
  // Works that it rests on, of today's weight as well, of the arm that has fewer.
  double Works(int64_t now_ns) const noexcept;
  // Works beyond their p99 that it rests on, of the arm that has fewer.
  double Slow(int64_t now_ns) const noexcept;
  // On the mean duration.
  Overhead Mean(int64_t now_ns) const noexcept;
  // On the p99 of the durations, where the tail is as steep as that.
  Overhead Tail(int64_t now_ns, double steepness) const noexcept;

 private:
  enum Term : uint8_t { kDeepWorks, kDeepTime, kDeepSlow, kReferenceWorks, kReferenceTime, kReferenceSlow, kTerms };

  // What is left of a weight of 1.
  double Fade(int64_t now_ns) const noexcept;
  // Of the mean of a sum with these weights, over rounds.
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
