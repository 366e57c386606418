// SPDX-License-Identifier: Apache-2.0
#include "analyze/verdict/contrast.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/quantile.h"

namespace pitot::verdict {

namespace {

// A share of the latency. The test uses the farthest part of normal requests, and one of some ten parts is always a
// little off. 0.9 ms of a lock in a request of 8 ms, no slower for it, must not be as far from usual as 5 ms of a
// varying part. See docs/lab/accuracy.md for how it was chosen.
constexpr double kLeastScale = 0.05;
// Parts that are nearly always 0 and now and then milliseconds (queues, wake-ups) have no spread, and would be the
// farthest part of every normal request. So a scale is at least the excess that 2 of 100 requests exceed, divided by
// the deviations that a normal distribution exceeds as seldom. These 2 % are the alpha of verdicts.
constexpr double kTail = 0.98, kTailToSigma = 2.054;
constexpr double kLeastRest = 0.2;     // of the stretched parts, without the largest: less is no evidence for "all"
constexpr double kUsualFactor = 0.98;  // the quantile of normal requests' common factors

// Means in whole ns that add up to the rounded mean of the sums. They are rounded down, and the rest goes to the
// largest remainders, the first parts on a tie.
Parts Mean(const std::vector<const BlameVector*>& rows, int64_t* total_ns) {
  Parts mean{};
  const auto n = static_cast<int64_t>(rows.size());
  std::array<int64_t, kBlames> remainders{};
  int64_t left = 0;
  for (uint32_t k = 0; k < kBlames; ++k) {
    // Such sums would overflow for requests of months: values are divided one by one.
    int64_t whole = 0, rest = 0;
    for (const BlameVector* row : rows) whole += row->ns[k] / n, rest += row->ns[k] % n;
    mean[k] = whole + rest / n;
    remainders[k] = rest % n;
    left += remainders[k];
  }
  std::array<uint32_t, kBlames> order{};
  for (uint32_t k = 0; k < kBlames; ++k) order[k] = k;
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return remainders[a] > remainders[b]; });
  const auto ones = static_cast<uint32_t>((left + n / 2) / n);
  for (uint32_t i = 0; i < std::min(ones, kBlames); ++i) ++mean[order[i]];
  *total_ns = 0;
  for (const int64_t part : mean) *total_ns += part;
  return mean;
}

// Turns of an event loop or of the interpreter, and waits of the request's own going on meanwhile: a backend answers
// while another task has the loop. A thread that waits for a lock or its executor waits for nothing else meanwhile.
constexpr uint32_t kTurns = BlameBit(Blame::kQueueWaitOthers) | BlameBit(Blame::kHostGil) | BlameBit(Blame::kHandoff);
constexpr uint32_t kGoesOn =
    BlameBit(Blame::kHostPagefaultIo) | BlameBit(Blame::kHostBlockedUnknown) | BlameBit(Blame::kUntraced);

// Takes from the waits for turns the time by which the others were shorter: the request would have spent it anyway.
// Each loses the same share.
Parts LostIn(const Parts& beyond_ns) {
  int64_t waited_ns = 0, saved_ns = 0;
  for (uint32_t k = 0; k < kBlames; ++k) {
    if ((kTurns >> k & 1) != 0) waited_ns += std::max<int64_t>(beyond_ns[k], 0);
    if ((kGoesOn >> k & 1) != 0) saved_ns -= std::min<int64_t>(beyond_ns[k], 0);
  }
  if (waited_ns == 0) return beyond_ns;
  const double lost = 1 - std::min(1.0, static_cast<double>(saved_ns) / static_cast<double>(waited_ns));
  Parts lost_ns = beyond_ns;
  for (uint32_t k = 0; k < kBlames; ++k) {
    if ((kTurns >> k & 1) != 0 && lost_ns[k] > 0) lost_ns[k] = std::llround(lost * static_cast<double>(lost_ns[k]));
  }
  return lost_ns;
}

// How far a part is beyond usual, for its test. A thread goes on launching while others' work is on the GPU. So time
// saved on the thread meanwhile is not lost to that wait.
int64_t Lost(const Parts& beyond_ns, uint32_t k) {
  if (static_cast<Blame>(k) != Blame::kGpuQueueWaitOthers) return beyond_ns[k];
  const int64_t on_thread_ns = beyond_ns[static_cast<uint32_t>(Blame::kHostOncpuFramework)] +
                               beyond_ns[static_cast<uint32_t>(Blame::kLaunchApi)];
  return beyond_ns[k] + std::min<int64_t>(on_thread_ns, 0);
}

}  // namespace

Normal::Normal(const std::vector<BlameVector>& rows, uint32_t execution) : execution_(execution) {
  if (rows.size() < 4) return;
  for (const BlameVector& row : rows) latencies_.push_back(row.Total());
  std::sort(latencies_.begin(), latencies_.end());

  // Half of the rows learn, the rest calibrate. Taking every other row would separate two alternating kinds of
  // requests. Multiples of the golden ratio are spread evenly, whatever the period.
  std::vector<const BlameVector*> learn, calibrate;
  std::vector<double> learnt_ns;
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool learns = (i * 0x9e3779b97f4a7c15u) >> 63 == 0;
    (learns ? learn : calibrate).push_back(&rows[i]);
    if (learns) learnt_ns.push_back(static_cast<double>(rows[i].Total()));
  }
  const double p25 = base::Quantile(learnt_ns, 0.25), p75 = base::Quantile(learnt_ns, 0.75);
  std::vector<const BlameVector*> typical;
  for (const BlameVector* row : learn) {
    const auto latency = static_cast<double>(row->Total());
    if (latency >= p25 && latency <= p75) typical.push_back(row);
  }
  if (typical.empty()) typical = learn;
  mu_ns_ = Mean(typical, &latency_ns_);

  for (uint32_t k = 0; k < kBlames; ++k) {
    std::vector<double> all_ns;
    for (const BlameVector& row : rows) all_ns.push_back(static_cast<double>(row.ns[k]));
    most_ns_[k] = std::llround(base::Quantile(std::move(all_ns), kTail));
    std::vector<int64_t> values;
    std::vector<double> above_ns;  // usual, without the slow ones: their cause is not spread
    for (const BlameVector* row : learn) {
      values.push_back(row->ns[k]);
      if (static_cast<double>(row->Total()) <= p75) above_ns.push_back(static_cast<double>(Lost(Beyond(*row), k)));
    }
    const int64_t median = base::Median(values);
    for (int64_t& value : values) value = std::llabs(value - median);
    const double spread = base::kMadToSigma * static_cast<double>(base::Median(std::move(values)));
    const double tail = base::Quantile(std::move(above_ns), kTail) / kTailToSigma;
    const double least = kLeastScale * static_cast<double>(latency_ns_);
    deviation_ns_[k] = std::llround(std::max(spread, tail));
    scale_ns_[k] = std::max<int64_t>(1, std::llround(std::max({spread, tail, least})));
    varying_ += std::max(spread, tail) > least ? 1 : 0;
  }

  std::vector<double> factors;
  for (const BlameVector* row : calibrate) {
    if (static_cast<double>(row->Total()) > p75) continue;
    const Contrast at = Residuals(*row);
    double farthest = -INFINITY;
    for (uint32_t k = 0; k < kBlames; ++k)
      farthest = std::max(farthest, static_cast<double>(Lost(at.residual_ns, k)) / static_cast<double>(scale_ns_[k]));
    calibration_.push_back(farthest);
    factors.push_back(at.common_factor);
  }
  std::sort(calibration_.begin(), calibration_.end());
  usual_common_factor_ = base::Quantile(std::move(factors), kUsualFactor);
}

double Normal::Percentile(int64_t latency_ns) const { return base::ShareUpTo(latencies_, latency_ns); }

// The weighted median of excess / mu over the parts stretched by a clock, weighted by mu. It must not rest on one part
// alone, or every slow kernel would be a slow clock. So the largest part is left out once, and the result nearer to
// 0 counts. Launching calls and the code around them count as one part, because a delay of one delays the other.
double Normal::CommonFactor(const Parts& excess_ns) const {
  struct Part {
    double ratio, mu;
  };
  std::vector<Part> parts;
  constexpr auto kCode = static_cast<uint32_t>(Blame::kHostOncpuFramework);
  constexpr auto kLaunching = static_cast<uint32_t>(Blame::kLaunchApi);
  const auto is_stretched = [&](uint32_t k) { return (execution_ >> k & 1) != 0; };
  const bool is_code_with_calls = is_stretched(kCode) && is_stretched(kLaunching);
  for (uint32_t k = 0; k < kBlames; ++k) {
    if (!is_stretched(k) || (is_code_with_calls && k == kLaunching)) continue;
    const bool has_calls = is_code_with_calls && k == kCode;
    const auto mu = static_cast<double>(mu_ns_[k] + (has_calls ? mu_ns_[kLaunching] : 0));
    const auto excess = static_cast<double>(excess_ns[k] + (has_calls ? excess_ns[kLaunching] : 0));
    if (mu > 0) parts.push_back({excess / mu, mu});
  }
  if (parts.empty()) return 0;
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.ratio < b.ratio; });
  const auto largest =
      std::max_element(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.mu < b.mu; });
  const auto median = [&](double weight, auto without) {
    double before = 0;
    for (auto part = parts.begin(); part != parts.end(); ++part) {
      before += part == without ? 0 : part->mu;
      if (part != without && before >= weight / 2) return part->ratio;
    }
    return 0.0;
  };
  double weight = 0;
  for (const Part& part : parts) weight += part.mu;
  const double others = weight - largest->mu;
  if (others < kLeastRest * weight) return 0;
  const double all = median(weight, parts.end()), rest = median(others, largest);
  if ((all > 0) != (rest > 0)) return 0;
  return std::fabs(all) < std::fabs(rest) ? all : rest;
}

Parts Normal::Beyond(const BlameVector& blame) const {
  Parts beyond_ns{};
  for (uint32_t k = 0; k < kBlames; ++k) beyond_ns[k] = blame.ns[k] - mu_ns_[k];
  return beyond_ns;
}

Contrast Normal::Residuals(const BlameVector& blame) const {
  Contrast at;
  at.excess_ns = Beyond(blame);
  at.common_factor = CommonFactor(at.excess_ns);
  for (uint32_t k = 0; k < kBlames; ++k) {
    if ((execution_ >> k & 1) != 0) at.common_ns[k] = std::llround(at.common_factor * static_cast<double>(mu_ns_[k]));
    at.residual_ns[k] = at.excess_ns[k] - at.common_ns[k];
  }
  at.lost_ns = LostIn(at.residual_ns);
  return at;
}

double Normal::FloorOfP(uint32_t k, int64_t lost_ns) const {
  if (deviation_ns_[k] <= 0) return 0;
  const double z = static_cast<double>(lost_ns) / static_cast<double>(deviation_ns_[k]);
  const double above = std::erfc(z / std::sqrt(2.0)) / 2;
  return 1 - std::pow(1 - above, std::max(varying_, 1u));
}

Contrast Normal::Test(const BlameVector& blame) const {
  Contrast at = Residuals(blame);
  for (uint32_t k = 0; k < kBlames; ++k) {
    at.p[k] = 1;
    const int64_t lost_ns = Lost(at.lost_ns, k);
    if (lost_ns <= 0 || calibration_.empty()) continue;
    const double z = static_cast<double>(lost_ns) / static_cast<double>(scale_ns_[k]);
    const auto farther = calibration_.end() - std::lower_bound(calibration_.begin(), calibration_.end(), z);
    const double p = (1 + static_cast<double>(farther)) / (static_cast<double>(calibration_.size()) + 1);
    at.p[k] = std::max(p, FloorOfP(k, lost_ns));
  }
  return at;
}

}  // namespace pitot::verdict
