// SPDX-License-Identifier: Apache-2.0
//
// Decides by the estimates: the base depth, and the share of the time for exploring others.
#ifndef PITOT_LIB_GOVERNOR_POLICY_H_
#define PITOT_LIB_GOVERNOR_POLICY_H_

#include <stdint.h>

#include "governor/contrast.h"
#include "governor/switchback.h"
#include "pitot/depth.h"

namespace pitot::governor {

inline constexpr uint32_t kDepths = 4;  // kScopes to kOps
inline constexpr uint32_t kAllDepths = (1u << kDepths) - 1;

constexpr uint32_t IndexOf(Depth depth) noexcept { return static_cast<uint32_t>(depth); }

// A change of the base depth.
struct Step {
  int64_t at_ns = 0;
  Depth from = Depth::kScopes, to = Depth::kScopes;
  const char* reason = "";  // a literal
};

// Not thread-safe; no clock of its own.
class Policy {
 public:
  // `budget`: 0.01 is 1 %.
  explicit Policy(double budget) noexcept;

  // Returns depths whose measurements are forgotten: they are gone, or no longer record the same, because others before
  // them came or went.
  uint32_t SetAvailable(int64_t now_ns, uint32_t depths) noexcept;
  // Share of the time, 0 to 1, recorded at full depth for other reasons.
  void SetArmedShare(double share) noexcept { armed_share_ = share; }
  // The present steepness of the tail (Classes::TailSteepness).
  void SetSteepness(double steepness) noexcept { steepness_ = steepness; }

  // Takes in a round's result; may change the base.
  void Learn(int64_t now_ns, const Round& round) noexcept;
  // Draws whether a round begins now, and of which depths.
  enum class Next : uint8_t { kRest, kRound };
  Next Draw(int64_t now_ns, Lots* lots, Depth (&depths)[Round::kBlocks]) noexcept;

  Depth base() const noexcept { return base_; }
  Depth deepest() const noexcept;
  bool IsAvailable(Depth depth) const noexcept { return (available_ & BitOf(depth)) != 0; }
  // The next deeper one available; the base if there is none.
  Depth NextDeeper() const noexcept;
  bool IsDear(Depth depth) const noexcept { return levels_[IndexOf(depth)].probe_gap_ns != 0; }
  Overhead Mean(int64_t now_ns, Depth depth) const noexcept;
  Overhead Tail(int64_t now_ns, Depth depth) const noexcept;
  // The basis of these two (Contrast).
  double Rounds(int64_t now_ns, Depth depth) const noexcept;
  double Works(int64_t now_ns, Depth depth) const noexcept;
  // The overhead on the mean assumed for a trial of a depth.
  double MeanFeared(int64_t now_ns, Depth depth) const noexcept;

  static constexpr uint32_t kStepsKept = 16;
  uint64_t step_count() const noexcept { return step_count_; }
  // The i-th of all steps, one of the last kStepsKept.
  const Step& step(uint64_t i) const noexcept { return steps_[i % kStepsKept]; }

 private:
  static constexpr int64_t kSecondNs = 1'000'000'000;
  // Half-lives of a round's weight: an hour, so that a day's load decides and not last week's; and two minutes, to
  // notice a change.
  static constexpr int64_t kLastingNs = 3600 * kSecondNs, kRecentNs = 120 * kSecondNs;
  struct Level {
    Contrast lasting{kLastingNs}, recent{kRecentNs};
    int64_t probe_gap_ns = 0;  // 0: not known to be too expensive
    int64_t probe_after_ns = INT64_MIN;
    int64_t base_after_ns = INT64_MIN;
    int64_t base_pause_ns = 0;
    uint32_t before = 0;  // those available before it: it records theirs, too
  };

  bool IsWithin(int64_t now_ns, Depth depth) const noexcept;
  bool IsOver(const Overhead& overhead, double of_half) const noexcept;
  const char* WhyOver(int64_t now_ns, Depth depth) const noexcept;
  void NoticeChange(int64_t now_ns, Level* level) const noexcept;
  void NoteCost(int64_t now_ns, Depth depth, bool was_cut) noexcept;
  Depth DeepestWithin(int64_t now_ns, Depth depth) const noexcept;
  void MoveBase(int64_t now_ns) noexcept;
  void StepTo(int64_t now_ns, Depth depth, const char* reason) noexcept;
  Depth Candidate(Lots* lots) const noexcept;
  double ExploredShare(int64_t now_ns, Depth depth) const noexcept;
  double PassingFeared(int64_t now_ns, Depth depth) const noexcept;
  double Passing(double overhead) const noexcept;

  const double budget_;
  uint32_t available_ = kAllDepths;
  Depth base_ = Depth::kScopes;
  int64_t base_since_ns_ = 0;
  double armed_share_ = 0;
  double steepness_ = 8;
  Level levels_[kDepths];  // those of scopes are unknown and not needed
  Step steps_[kStepsKept];
  uint64_t step_count_ = 0;
};

}  // namespace pitot::governor

#endif  // PITOT_LIB_GOVERNOR_POLICY_H_
