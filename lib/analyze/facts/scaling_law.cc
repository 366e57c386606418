// SPDX-License-Identifier: Apache-2.0
#include "analyze/facts/scaling_law.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "analyze/facts/random.h"
#include "base/quantile.h"

namespace pitot::facts {
namespace {

constexpr size_t kTerms = 3;
constexpr uint32_t kLawResamples = 200;

struct Point {
  std::array<double, kTerms> terms;
  double ns, weight;
};

// Least squares over the terms in `used`, by Gauss's elimination; false if the points do not determine them.
bool Solve(const std::vector<Point>& points, uint32_t used, std::array<double, kTerms>* solution) {
  double m[kTerms][kTerms + 1] = {};
  size_t which[kTerms], count = 0;
  for (size_t k = 0; k < kTerms; ++k) {
    if ((used >> k & 1) != 0) which[count++] = k;
  }
  for (const Point& point : points) {
    for (size_t i = 0; i < count; ++i) {
      const double weighted = point.weight * point.terms[which[i]];
      for (size_t j = 0; j < count; ++j) m[i][j] += weighted * point.terms[which[j]];
      m[i][kTerms] += weighted * point.ns;
    }
  }
  for (size_t i = 0; i < count; ++i) {
    size_t pivot = i;
    for (size_t row = i + 1; row < count; ++row) {
      if (std::abs(m[row][i]) > std::abs(m[pivot][i])) pivot = row;
    }
    if (std::abs(m[pivot][i]) < 1e-9) return false;
    std::swap(m[i], m[pivot]);
    for (size_t row = 0; row < count; ++row) {
      if (row == i) continue;
      const double factor = m[row][i] / m[i][i];
      for (size_t j = i; j <= kTerms; ++j) m[row][j] -= factor * m[i][j];
    }
  }
  solution->fill(0);
  for (size_t i = 0; i < count; ++i) (*solution)[which[i]] = m[i][kTerms] / m[i][i];
  return true;
}

}  // namespace

double ScalingLaw::Peak() const {
  if (crosstalk <= 0) return std::numeric_limits<double>::infinity();
  return serial >= 1 ? 1 : std::max(1.0, std::sqrt((1 - serial) / crosstalk));
}

uint32_t ScalingLaw::Best(uint32_t most) const {
  const double peak = Peak();
  if (peak >= most) return most;
  const auto below = static_cast<uint32_t>(peak);
  return Gain(below + 1, below) > 0 ? below + 1 : below;
}

ScalingLaw FitScaling(const std::map<uint32_t, std::vector<double>>& times) {
  std::vector<Point> points;
  for (const auto& [size, samples] : times) {
    const double n = size;
    if (!samples.empty())
      points.push_back({{1, n - 1, n * (n - 1)}, base::Median(samples), static_cast<double>(samples.size())});
  }
  ScalingLaw law;
  if (points.size() < kTerms) return law;
  // The nearest fit among all choices of terms without a negative one.
  double nearest = std::numeric_limits<double>::infinity();
  for (const uint32_t used : {7u, 3u, 5u, 1u}) {
    std::array<double, kTerms> found{};
    if (!Solve(points, used, &found) || found[0] <= 0 || found[1] < 0 || found[2] < 0) continue;
    double error = 0;
    for (const Point& point : points) {
      const double off = found[0] + found[1] * point.terms[1] + found[2] * point.terms[2] - point.ns;
      error += point.weight * off * off;
    }
    if (error >= nearest) continue;
    nearest = error;
    law = {found[0], found[1] / found[0], found[2] / found[0]};
  }
  return law;
}

SureScalingLaw FitSurely(const std::map<uint32_t, std::vector<double>>& times) {
  SureScalingLaw sure;
  sure.law = FitScaling(times);
  if (sure.law.one_ns <= 0) return sure;
  const uint32_t largest = times.rbegin()->first;
  sure.best = sure.law.Best(largest);
  std::vector<double> serial, gain;
  Random random;
  for (uint32_t i = 0; i < kLawResamples; ++i) {
    std::map<uint32_t, std::vector<double>> drawn;
    for (const auto& [size, samples] : times) {
      std::vector<double>& of = drawn[size];
      for (size_t k = 0; k < samples.size(); ++k) of.push_back(samples[random.Below(samples.size())]);
    }
    const ScalingLaw law = FitScaling(drawn);
    serial.push_back(law.serial);
    gain.push_back(law.one_ns > 0 ? law.Gain(sure.best, largest) : 0);
  }
  for (std::vector<double>* const values : {&serial, &gain}) std::sort(values->begin(), values->end());
  sure.least_serial = serial[kLawResamples / 20];
  sure.least_gain = gain[kLawResamples / 20];
  return sure;
}

}  // namespace pitot::facts
