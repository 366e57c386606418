// SPDX-License-Identifier: Apache-2.0
//
// The statistics of a verdict: the normal case, and the parts of one request outside of it.
//
// Half of the normal requests give the usual values (mu, which adds up, and a scale for each part). The other half,
// without those slower than three quarters, gives the distance from there to the farthest part of a normal request. A
// part farther away than in all but alpha of these is named. This is one test for all parts at once (split conformal,
// the max statistic), so its error needs no correction for their number. The common factor of all parts is taken out
// first. The slowest quarter does not calibrate, and has the longest parts. So p has a floor: how often a normal
// distribution with the part's own deviation has any of the varying parts as far out.
#ifndef PITOT_LIB_ANALYZE_VERDICT_CONTRAST_H_
#define PITOT_LIB_ANALYZE_VERDICT_CONTRAST_H_

#include <array>
#include <cstdint>
#include <vector>

#include "analyze/verdict/namespace.h"
#include "pitot/analyze/why.h"

namespace pitot::verdict {

using Parts = std::array<int64_t, kBlames>;

// The position of one request.
struct Contrast {
  Parts excess_ns{};                // minus mu; adds up to its latency minus mu's
  Parts common_ns{};                // of that, explained by the common factor
  Parts residual_ns{};              // the rest
  Parts lost_ns{};                  // of that, its cost: waits for turns less those going on meanwhile
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
  // The least possible p: 1 / (m + 1), with m calibrating requests.
  double least_p() const { return 1.0 / (static_cast<double>(calibration_.size()) + 1); }
  // A common factor that 98 % of the normal requests do not exceed.
  double usual_common_factor() const { return usual_common_factor_; }
  // A part that 98 % of the rows do not exceed.
  int64_t UsualMostNs(Blame part) const { return most_ns_[static_cast<uint32_t>(part)]; }
  // The share of all rows with a latency of at most `latency_ns`.
  double Percentile(int64_t latency_ns) const;

  Contrast Test(const BlameVector& blame) const;

 private:
  Parts Beyond(const BlameVector& blame) const;  // minus mu
  double CommonFactor(const Parts& excess_ns) const;
  Contrast Residuals(const BlameVector& blame) const;
  // How often a normal distribution has any of the varying parts as far beyond usual as this one.
  double FloorOfP(uint32_t k, int64_t lost_ns) const;

  uint32_t execution_;
  Parts mu_ns_{};
  int64_t latency_ns_ = 0;
  Parts scale_ns_{}, most_ns_{};
  Parts deviation_ns_{};             // the scale without the allowance
  uint32_t varying_ = 0;             // parts whose deviation is above the allowance
  std::vector<double> calibration_;  // the largest z of each, ascending
  std::vector<int64_t> latencies_;   // of all, ascending
  double usual_common_factor_ = 0;
};

}  // namespace pitot::verdict

#endif  // PITOT_LIB_ANALYZE_VERDICT_CONTRAST_H_
