// SPDX-License-Identifier: Apache-2.0
#include "governor/governor.h"

#include <stdio.h>

#include <algorithm>
#include <cmath>
#include <new>

#include "base/depth_name.h"

namespace pitot::governor {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
// Works longer than a second outgrow even the longest block; nothing waits longer for them.
constexpr int64_t kShortestBlockNs = 50'000'000, kLongestBlockNs = 5 * kSecondNs;
constexpr int64_t kRefreshNs = kSecondNs;        // between looks at works' usual durations
constexpr int64_t kIdleNs = 10 * kSecondNs;      // without work there is nothing to measure
constexpr int64_t kEndOfTimeNs = INT64_MAX / 2;  // sums of times below do not overflow
constexpr double kOfLateNs = 600e9;              // shares of recent time fade with this

Options Checked(Options options) noexcept {
  options.budget_percent = options.budget_percent > 0 ? options.budget_percent : Options{}.budget_percent;
  options.block_ns = std::clamp(options.block_ns, kShortestBlockNs, kLongestBlockNs);
  return options;
}

Estimate InPercent(const Overhead& overhead) noexcept {
  if (!overhead.is_known) return {};
  return {true, 100 * overhead.value, 100 * overhead.low, 100 * overhead.high};
}

}  // namespace

std::unique_ptr<Governor> Governor::Make(const Options& options) noexcept {
  return std::unique_ptr<Governor>(new (std::nothrow) Governor(options));
}

Governor::Governor(const Options& options) noexcept
    : options_(Checked(options)), lots_(options.seed), policy_(options_.budget_percent / 100) {
  shares_[IndexOf(depth_)] = 1;
}

Depth Governor::Tick(int64_t now_ns) noexcept {
  Account(now_ns);
  Drain();
  Move();
  return depth_;
}

Depth Governor::Arm(int64_t now_ns, int64_t until_ns) noexcept {
  Account(now_ns);
  if (until_ns <= now_ns_) return depth_;
  // The whole round, and every arm of it: slow works fire, and without only their blocks more of the more expensive
  // depth's would be missing.
  VoidRound();
  armed_until_ns_ = std::max(armed_until_ns_, std::min(until_ns, now_ns_ + kLongestArmNs));
  return depth_ = policy_.deepest();
}

void Governor::SetAvailable(uint32_t depths) noexcept {
  const uint32_t changed = policy_.SetAvailable(now_ns_, depths);
  for (uint32_t i = 0; i < kDepths; ++i) {
    if ((changed >> i & 1) != 0 && round_.Uses(static_cast<Depth>(i))) return VoidRound();
  }
}

int64_t Governor::DueNs() const noexcept {
  if (armed_until_ns_ != 0) return armed_until_ns_;
  if (!round_.is_over()) return round_.DueNs();
  const bool may_draw = policy_.deepest() != Depth::kScopes && HasWork();
  return may_draw ? std::max(rest_until_ns_, now_ns_) : INT64_MAX;
}

// Adds the time since the last tick to the depth then in force.
void Governor::Account(int64_t now_ns) noexcept {
  now_ns = std::clamp<int64_t>(now_ns, 0, kEndOfTimeNs);
  if (!has_ticked_) {
    has_ticked_ = true;
    now_ns_ = rest_until_ns_ = refreshed_ns_ = now_ns;
  }
  const int64_t passed_ns = std::max<int64_t>(now_ns - now_ns_, 0);
  const bool is_armed = armed_until_ns_ != 0;
  depth_ns_[IndexOf(depth_)] += passed_ns;
  if (is_armed) armed_ns_ += passed_ns;
  const double weight = -std::expm1(-static_cast<double>(passed_ns) / kOfLateNs);
  for (uint32_t i = 0; i < kDepths; ++i) shares_[i] += weight * ((IndexOf(depth_) == i ? 1 : 0) - shares_[i]);
  armed_share_ += weight * ((is_armed ? 1 : 0) - armed_share_);
  now_ns_ += passed_ns;
}

void Governor::Drain() noexcept {
  notes_.Drain([this](const governor::Note& note) { Take(note); });
}

void Governor::Take(const governor::Note& note) noexcept {
  // A note may get here some time after the watcher read its clock.
  if (note.begin_ns < 0 || note.end_ns < note.begin_ns || note.begin_ns > now_ns_ ||
      note.end_ns > now_ns_ + kSecondNs) {
    ++notes_refused_;
    return;
  }
  ++notes_taken_;
  last_work_ns_ = now_ns_;
  round_.Take(note.begin_ns, classes_.Take(note.work_class, note.end_ns - note.begin_ns));
}

void Governor::Move() noexcept {
  if (armed_until_ns_ != 0) {
    if (now_ns_ < armed_until_ns_) {
      depth_ = policy_.deepest();
      return;
    }
    armed_until_ns_ = 0;
    rest_until_ns_ = now_ns_ + options_.block_ns;  // works in flight were recorded at full depth
  }
  if (!round_.is_over()) {
    round_.CutIfCatastrophic(now_ns_);
    if (round_.Advance(now_ns_)) {
      policy_.SetSteepness(classes_.TailSteepness());
      policy_.Learn(now_ns_, round_);
    } else if (round_.is_over()) {
      ++rounds_void_;  // the watcher came late
    }
    if (round_.is_over()) rest_until_ns_ = now_ns_;
  }
  if (round_.is_over()) Draw();
  depth_ = round_.is_over() ? policy_.base() : round_.depth();
}

void Governor::Draw() noexcept {
  if (now_ns_ < rest_until_ns_) return;
  // Only between rounds, because a round's scale must not move.
  if (now_ns_ - refreshed_ns_ >= kRefreshNs) {
    refreshed_ns_ = now_ns_;
    classes_.Refresh();
  }
  const int64_t p99_ns = classes_.LongP99Ns();
  const int64_t block_ns = std::clamp(Round::kMarginsPerBlock * p99_ns, options_.block_ns, kLongestBlockNs);
  rest_until_ns_ = now_ns_ + block_ns;
  if (p99_ns == 0 || !HasWork()) return;
  policy_.SetArmedShare(armed_share_);
  policy_.SetSteepness(classes_.TailSteepness());
  Depth depths[Round::kBlocks];
  if (policy_.Draw(now_ns_, &lots_, depths) == Policy::Next::kRest) return;
  round_.Begin(now_ns_, block_ns, depths, policy_.base(), &lots_);
  ++rounds_begun_;
}

// Whether there was work to measure a little while ago.
bool Governor::HasWork() const noexcept { return last_work_ns_ != 0 && now_ns_ - last_work_ns_ <= kIdleNs; }

void Governor::VoidRound() noexcept {
  if (round_.is_over()) return;
  round_.Void();
  ++rounds_void_;
}

Overhead Governor::Cost() const noexcept {
  // A depth that is only tried may be unknown: its cost is then between nothing and the feared cost. If none was
  // measured, nothing is known.
  constexpr double kTried = 0.02;
  Overhead cost;
  for (uint32_t i = 1; i < kDepths; ++i) {
    const Overhead mean = policy_.Mean(now_ns_, static_cast<Depth>(i));
    if (!mean.is_known && shares_[i] > kTried) return {};
    cost.is_known |= mean.is_known;
    cost.value += mean.is_known ? shares_[i] * mean.value : 0;
    cost.low += mean.is_known ? shares_[i] * mean.low : 0;
    cost.high += shares_[i] * (mean.is_known ? mean.high : policy_.MeanFeared(now_ns_, static_cast<Depth>(i)));
  }
  if (!cost.is_known) return {};
  return cost;
}

void Governor::Describe(char* text, size_t size) const noexcept {
  const Depth base = policy_.base(), next = policy_.NextDeeper();
  if (policy_.deepest() == Depth::kScopes) {
    snprintf(text, size, "auto, at scopes: no collector offers a deeper one now");
  } else if (armed_until_ns_ != 0) {
    snprintf(text, size, "armed: %s", base::DepthName(depth_));
  } else if (!HasWork()) {
    snprintf(text, size, "holding %s; no work to measure", base::DepthName(base));
  } else if (next == base) {
    snprintf(text, size, "holding %s", base::DepthName(base));
  } else {
    snprintf(text, size, "holding %s; %s %s", base::DepthName(base),
             policy_.IsDear(next) ? "over budget at" : "measuring", base::DepthName(next));
  }
}

Report Governor::GetReport() const noexcept {
  Report report = {};
  Describe(report.state, sizeof report.state);
  report.depth = depth_;
  report.base = policy_.base();
  report.cost = InPercent(Cost());
  int64_t total_ns = 0;
  for (const int64_t ns : depth_ns_) total_ns += ns;
  const auto percent = [=](int64_t ns) {
    return total_ns == 0 ? 0 : 100 * static_cast<double>(ns) / static_cast<double>(total_ns);
  };
  for (uint32_t i = 0; i < kDepths; ++i) {
    const Depth depth = static_cast<Depth>(i);
    report.depths[i] = {policy_.IsAvailable(depth),
                        InPercent(policy_.Mean(now_ns_, depth)),
                        InPercent(policy_.Tail(now_ns_, depth)),
                        policy_.Rounds(now_ns_, depth),
                        policy_.Works(now_ns_, depth),
                        percent(depth_ns_[i])};
  }
  report.armed_percent = percent(armed_ns_);
  report.steps_total = policy_.step_count();
  report.step_count = static_cast<uint32_t>(std::min<uint64_t>(report.steps_total, Policy::kStepsKept));
  for (uint32_t i = 0; i < report.step_count; ++i) {
    report.steps[i] = policy_.step(report.steps_total - report.step_count + i);
  }
  report.rounds_begun = rounds_begun_;
  report.rounds_void = rounds_void_;
  report.notes_taken = notes_taken_;
  report.notes_lost = notes_.lost();
  report.notes_refused = notes_refused_;
  return report;
}

}  // namespace pitot::governor
