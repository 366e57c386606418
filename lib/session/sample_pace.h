// SPDX-License-Identifier: Apache-2.0
//
// How often the judge gets a sample, and how long a time it covers: as requested, and less if learning from it is too
// expensive. Findings of samples have a share of their own.
#ifndef PITOT_LIB_SESSION_SAMPLE_PACE_H_
#define PITOT_LIB_SESSION_SAMPLE_PACE_H_

#include <algorithm>
#include <cstdint>

#include "pitot/extend/judge.h"

namespace pitot::session {

// Not thread-safe.
class SamplePace {
 public:
  // Begins anew for a judge with these needs.
  void Begin(const JudgeNeeds& needs) { *this = SamplePace(), needs_ = needs, window_ms_ = needs.sample_window_ms; }

  bool IsDue(int64_t now_ns) const { return needs_.sample_every_ms != 0 && now_ns >= next_ns_; }
  uint32_t window_ms() const { return window_ms_; }
  uint32_t most_bytes() const { return needs_.sample_bytes; }

  // Notes that one is taken.
  void Take(int64_t now_ns) { next_ns_ = now_ns + int64_t{needs_.sample_every_ms} * 1'000'000; }
  // Whether its findings may be looked for, too.
  bool AreFindingsDue(int64_t now_ns) const { return now_ns >= findings_ns_; }
  // Notes the CPU time of learning from it, of looking for its findings, and of computing what is usual. A shorter
  // window would not make the last cheaper.
  void Learned(int64_t now_ns, int64_t cost_ns, int64_t findings_cost_ns = 0, int64_t norms_cost_ns = 0) {
    next_ns_ = std::max(next_ns_, now_ns + PauseNs(cost_ns + norms_cost_ns));
    findings_ns_ = std::max(findings_ns_, now_ns + PauseNs(findings_cost_ns));
    if (cost_ns > kDearNs)
      window_ms_ = std::max(window_ms_ / 2, std::min(kLeastWindowMs, needs_.sample_window_ms));
    else if (cost_ns < kDearNs / 4)
      window_ms_ = std::min(window_ms_ * 2, needs_.sample_window_ms);
  }

 private:
  // Bytes bound the contents of rings, but not the contents of collectors, nor the cost of making rows of them.
  static constexpr int64_t kDearNs = 50'000'000;
  static constexpr uint32_t kLeastWindowMs = 250;

  // How long work of such a cost must pause. A judge with findings has half of the share for either work.
  int64_t PauseNs(int64_t cost_ns) const {
    return cost_ns * (needs_.has_findings ? 2000 : 1000) / std::max(needs_.sample_permille, 1u);
  }

  JudgeNeeds needs_;
  uint32_t window_ms_ = 0;
  int64_t next_ns_ = 0, findings_ns_ = 0;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_SAMPLE_PACE_H_
