// SPDX-License-Identifier: Apache-2.0
//
// How often the judge gets a sample, and how long a time it covers: as requested, and less if that is too expensive.
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
  // Notes the CPU time of learning from it.
  void Learned(int64_t now_ns, int64_t cost_ns) {
    next_ns_ = std::max(next_ns_, now_ns + cost_ns * 1000 / std::max(needs_.sample_permille, 1u));
    if (cost_ns > kDearNs)
      window_ms_ = std::max(window_ms_ / 2, std::min(kLeastWindowMs, needs_.sample_window_ms));
    else if (cost_ns < kDearNs / 4)
      window_ms_ = std::min(window_ms_ * 2, needs_.sample_window_ms);
  }

 private:
  // Bytes bound the contents of rings, but not the contents of collectors, nor the cost of making rows of them.
  static constexpr int64_t kDearNs = 50'000'000;
  static constexpr uint32_t kLeastWindowMs = 250;

  JudgeNeeds needs_;
  uint32_t window_ms_ = 0;
  int64_t next_ns_ = 0;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_SAMPLE_PACE_H_
