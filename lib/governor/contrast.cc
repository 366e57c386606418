// SPDX-License-Identifier: Apache-2.0
#include "governor/contrast.h"

#include <algorithm>
#include <cmath>

namespace pitot::governor {
namespace {

// The 97.5 % point of Student's t: Cornish and Fisher's expansion about the normal (Abramowitz and Stegun 26.7.5),
// right to 1 % from 4 degrees of freedom on.
double StudentT(double freedom) noexcept {
  constexpr double z = 1.959964, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
  return z + (z3 + z) / (4 * freedom) + (5 * z5 + 16 * z3 + 3 * z) / (96 * freedom * freedom) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * freedom * freedom * freedom);
}

}  // namespace

double Contrast::Fade(int64_t now_ns) const noexcept {
  return std::exp2(-static_cast<double>(std::max<int64_t>(now_ns - sums_.last_ns, 0)) /
                   static_cast<double>(half_life_ns_));
}

// Adds a round by Welford's update with weights (West, CACM 1979): without a difference of large sums.
void Contrast::Add(int64_t now_ns, const Tally& deep, const Tally& reference) noexcept {
  const double fade = Fade(now_ns);
  sums_.last_ns = std::max(sums_.last_ns, now_ns);
  sums_.weight = sums_.weight * fade + 1;
  sums_.squared_weight = sums_.squared_weight * fade * fade + 1;
  const double value[kTerms] = {deep.works, deep.time, deep.slow, reference.works, reference.time, reference.slow};
  double before[kTerms];
  for (int i = 0; i < kTerms; ++i) {
    before[i] = value[i] - sums_.mean[i];
    sums_.mean[i] += before[i] / sums_.weight;
  }
  for (int i = 0; i < kTerms; ++i) {
    for (int j = 0; j < kTerms; ++j)
      sums_.deviation[i][j] = sums_.deviation[i][j] * fade + before[i] * (value[j] - sums_.mean[j]);
  }
}

void Contrast::Become(const Contrast& other) noexcept { sums_ = other.sums_; }

// Kish's effective number, (sum w)^2 / sum w^2, is that of a flow of rounds. When the flow stops it stays, so the
// remaining weight bounds it. In a steady flow both are the same: 2 / (1 - fade per round).
double Contrast::Rounds(int64_t now_ns) const noexcept {
  if (sums_.weight <= 0) return 0;
  return std::min(sums_.weight * sums_.weight / sums_.squared_weight, 2 * sums_.weight * Fade(now_ns));
}

double Contrast::Works(int64_t now_ns) const noexcept {
  return Rounds(now_ns) * std::min(sums_.mean[kDeepWorks], sums_.mean[kReferenceWorks]);
}

double Contrast::Slow(int64_t now_ns) const noexcept {
  return Rounds(now_ns) * std::min(sums_.mean[kDeepSlow], sums_.mean[kReferenceSlow]);
}

double Contrast::Variance(const double (&weights)[kTerms], double rounds) const noexcept {
  double sum = 0;
  for (int i = 0; i < kTerms; ++i) {
    for (int j = 0; j < kTerms; ++j) sum += weights[i] * weights[j] * sums_.deviation[i][j];
  }
  return std::max(sum, 0.0) / sums_.weight / std::max(rounds - 1, 1.0);
}

Overhead Contrast::Mean(int64_t now_ns) const noexcept {
  const double deep_works = sums_.mean[kDeepWorks], deep_time = sums_.mean[kDeepTime],
               works = sums_.mean[kReferenceWorks], time = sums_.mean[kReferenceTime];
  if (deep_works <= 0 || works <= 0 || deep_time <= 0 || time <= 0) return {};
  const double ratio = deep_time / deep_works / (time / works), rounds = Rounds(now_ns);
  Overhead overhead;
  overhead.value = ratio - 1;
  if (rounds < kLeastRounds) return overhead;
  const double error =
      ratio * std::sqrt(Variance({-1 / deep_works, 1 / deep_time, 0, 1 / works, -1 / time, 0}, rounds));
  const double width = StudentT(rounds - 1) * error;
  overhead.is_known = true;
  overhead.low = overhead.value - width;
  overhead.high = overhead.value + width;
  return overhead;
}

Overhead Contrast::Tail(int64_t now_ns, double steepness) const noexcept {
  const double deep_works = sums_.mean[kDeepWorks], deep_slow = sums_.mean[kDeepSlow],
               works = sums_.mean[kReferenceWorks], slow = sums_.mean[kReferenceSlow];
  if (deep_works <= 0 || works <= 0 || deep_slow <= 0 || slow <= 0) return {};
  const double log_ratio = std::log(deep_slow / deep_works / (slow / works)), rounds = Rounds(now_ns);
  Overhead overhead;
  overhead.value = std::expm1(log_ratio / steepness);
  if (rounds < kLeastRounds || Slow(now_ns) < kLeastSlow) return overhead;
  const double error = std::sqrt(Variance({-1 / deep_works, 0, 1 / deep_slow, 1 / works, 0, -1 / slow}, rounds));
  const double width = StudentT(rounds - 1) * error;
  overhead.is_known = true;
  overhead.low = std::expm1((log_ratio - width) / steepness);
  overhead.high = std::expm1((log_ratio + width) / steepness);
  return overhead;
}

}  // namespace pitot::governor
