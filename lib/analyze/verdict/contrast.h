// SPDX-License-Identifier: Apache-2.0
//
// The statistics of a verdict: what is normal, and which parts of one request are outside of it.
//
// Half of the normal requests say what is usual (mu, which adds up, and a scale for each part); the other half, of
// those that were no slower than three quarters, say how far the farthest part of a normal request is from that. A part
// that is farther than alpha of these is named: one test for all parts at once (split conformal, the max statistic),
// which keeps its error without a correction for their number. What all parts have in common is taken out first.
#ifndef PITOT_LIB_ANALYZE_VERDICT_CONTRAST_H_
#define PITOT_LIB_ANALYZE_VERDICT_CONTRAST_H_

#include <array>
#include <cstdint>
#include <vector>

#include "pitot/analyze/why.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

using Parts = std::array<int64_t, kBlames>;

// Where one request is.
struct Contrast {
  Parts excess_ns{};                // minus mu; adds up to its latency minus mu's
  Parts common_ns{};                // of that, what the common factor explains
  Parts residual_ns{};              // the rest
  std::array<double, kBlames> p{};  // of the residual; 1 where it is not positive
  double common_factor = 0;
};

class Normal {
 public:
  // `rows`: blame of normal requests, in an order that means nothing to them. `execution`: a bit for each Blame that a
  // slower clock stretches. Fewer than 4 rows: is_empty.
  Normal(const std::vector<BlameVector>& rows, uint32_t execution);

  bool is_empty() const { return calibration_.empty(); }
  const Parts& mu_ns() const { return mu_ns_; }
  int64_t latency_ns() const { return latency_ns_; }  // the sum of mu_ns
  // The least p that can come out: 1 / (m + 1), of m requests that calibrate.
  double least_p() const { return 1.0 / (static_cast<double>(calibration_.size()) + 1); }
  // What 98 % of the normal requests have at most as their common factor.
  double usual_common_factor() const { return usual_common_factor_; }
  // The share of all rows whose latency is at most `latency_ns`.
  double Percentile(int64_t latency_ns) const;

  Contrast Test(const BlameVector& blame) const;

 private:
  Parts Beyond(const BlameVector& blame) const;  // minus mu
  double CommonFactor(const Parts& excess_ns) const;
  Contrast Residuals(const BlameVector& blame) const;

  uint32_t execution_;
  Parts mu_ns_{};
  int64_t latency_ns_ = 0;
  Parts scale_ns_{};
  std::vector<double> calibration_;  // the largest z of each, ascending
  std::vector<int64_t> latencies_;   // of all, ascending
  double usual_common_factor_ = 0;
};

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_VERDICT_CONTRAST_H_
