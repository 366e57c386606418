// SPDX-License-Identifier: Apache-2.0
#include "governor/policy.h"

#include <algorithm>
#include <cmath>

namespace pitot::governor {
namespace {

// The cost feared of a depth until it is measured: more than anything measured on one GPU (19 % for graphs node by
// node). It is half of the worst report (64 % of throughput, parca-agent#3213), and the first rounds would show that.
constexpr double kFeared = 0.30;
// The p99 takes longer to know, and is feared to suffer this many times as much as the mean.
constexpr double kTailFeared = 3;
// Least rounds, and least works beyond the p99 in both arms, for a depth to become the base: a ratio of 1.4 between the
// arms then shows. The base is left on no fewer rounds.
constexpr double kRoundsToStep = 20, kSlowToStep = 100;
// Multiples of half a 95 % interval: one standard error; and 2.7, one in 250 by chance, because each round looks once
// more.
constexpr double kOneError = 0.5, kSure = 1.35;
// Share of the time at scopes only while a deeper depth is the base, to go on comparing.
constexpr double kComparedShare = 0.05;
// Largest share of the time at a depth in question: a quarter is every round back to back.
constexpr double kMostExplored = 0.25, kMostExploredAboveScopes = 0.125;
// Largest part of the budget for armed time; otherwise a server that is often late would never learn what it can
// afford.
constexpr double kMostForArmed = 0.75;
// Every eighth round tries a depth beyond the next one.
constexpr double kFurther = 0.125;
// A depth that is too expensive is tried again after this, then twice this, ...
constexpr int64_t kFirstGapNs = 10'000'000'000, kLongestGapNs = 300'000'000'000;
// ... and a depth that was left is the base again no sooner than after this, then twice this, ...
constexpr int64_t kFirstPauseNs = 120'000'000'000, kLongestPauseNs = 3600'000'000'000;

}  // namespace

Policy::Policy(double budget) noexcept : budget_(budget) {
  for (uint32_t i = 0; i < kDepths; ++i) levels_[i].before = BitOf(static_cast<Depth>(i)) - 1;
}

Depth Policy::deepest() const noexcept {
  return static_cast<Depth>(31 - static_cast<uint32_t>(__builtin_clz(available_)));
}

Depth Policy::NextDeeper() const noexcept {
  for (uint32_t i = IndexOf(base_) + 1; i < kDepths; ++i) {
    if (IsAvailable(static_cast<Depth>(i))) return static_cast<Depth>(i);
  }
  return base_;
}

uint32_t Policy::SetAvailable(int64_t now_ns, uint32_t depths) noexcept {
  const uint32_t was_available = available_;
  available_ = (depths & kAllDepths) | BitOf(Depth::kScopes);
  uint32_t changed = was_available & ~available_;
  for (uint32_t i = 1; i < kDepths; ++i) {
    const uint32_t bit = BitOf(static_cast<Depth>(i)), before = available_ & (bit - 1);
    if ((available_ & bit) == 0 || levels_[i].before == before) continue;
    levels_[i] = {};
    levels_[i].before = before;
    changed |= bit;
  }
  if ((changed >> IndexOf(base_) & 1) == 0) return changed;
  const char* const reason = IsAvailable(base_) ? "not measured as it is now" : "no longer available";
  StepTo(now_ns, DeepestWithin(now_ns, base_), reason);
  return changed;
}

Overhead Policy::Mean(int64_t now_ns, Depth depth) const noexcept {
  return levels_[IndexOf(depth)].lasting.Mean(now_ns);
}
Overhead Policy::Tail(int64_t now_ns, Depth depth) const noexcept {
  return levels_[IndexOf(depth)].lasting.Tail(now_ns, steepness_);
}
double Policy::Rounds(int64_t now_ns, Depth depth) const noexcept {
  return levels_[IndexOf(depth)].lasting.Rounds(now_ns);
}
double Policy::Works(int64_t now_ns, Depth depth) const noexcept {
  return levels_[IndexOf(depth)].lasting.Works(now_ns);
}

// Whether a depth fits the budget. On the mean the whole interval must lie in it. An interval of a p99 takes too long
// to be so narrow. There it is a one-sided test at 84 %, on works enough to have shown harm.
bool Policy::IsWithin(int64_t now_ns, Depth depth) const noexcept {
  const Contrast& cost = levels_[IndexOf(depth)].lasting;
  const Overhead mean = Mean(now_ns, depth), tail = Tail(now_ns, depth);
  return cost.Rounds(now_ns) >= kRoundsToStep && cost.Slow(now_ns) >= kSlowToStep && mean.is_known && tail.is_known &&
         mean.high <= budget_ && tail.value + kOneError * (tail.high - tail.value) <= budget_;
}

// Why the base must be left; null if it need not. On the mean an estimate above the budget is enough; on the p99 it
// takes the same test to the other side. Between this and IsWithin lies half an interval: the hysteresis.
const char* Policy::WhyOver(int64_t now_ns, Depth depth) const noexcept {
  if (Rounds(now_ns, depth) < kRoundsToStep) return nullptr;
  const Overhead mean = Mean(now_ns, depth), tail = Tail(now_ns, depth);
  if (mean.is_known && mean.value > budget_) return "mean over the budget";
  if (IsOver(tail, kOneError)) return "p99 over the budget";
  return nullptr;
}

// Whether the estimate is above the budget even without this much of half its interval.
bool Policy::IsOver(const Overhead& overhead, double of_half) const noexcept {
  return overhead.is_known && overhead.value - of_half * (overhead.value - overhead.low) > budget_;
}

void Policy::Learn(int64_t now_ns, const Round& round) noexcept {
  const Tally reference = round.AverageBlock(Depth::kScopes);
  for (uint32_t i = 1; i < kDepths; ++i) {
    const Depth depth = static_cast<Depth>(i);
    if (!round.Uses(depth)) continue;
    const Tally deep = round.AverageBlock(depth);
    if (deep.works + reference.works == 0) continue;
    Level& level = levels_[i];
    level.lasting.Add(now_ns, deep, reference);
    level.recent.Add(now_ns, deep, reference);
    NoticeChange(now_ns, &level);
    NoteCost(now_ns, depth, round.WasCut(depth));
  }
  MoveBase(now_ns);
}

// Forgets the last hours if the last minutes contradict them, about four standard errors apart.
void Policy::NoticeChange(int64_t now_ns, Level* level) const noexcept {
  constexpr double kLeastRounds = 30;
  if (level->recent.Rounds(now_ns) < kLeastRounds) return;
  const auto differ = [](const Overhead& recent, const Overhead& lasting) {
    return recent.is_known && lasting.is_known && std::fabs(recent.value - lasting.value) > recent.high - recent.low;
  };
  if (!differ(level->recent.Mean(now_ns), level->lasting.Mean(now_ns)) &&
      !differ(level->recent.Tail(now_ns, steepness_), level->lasting.Tail(now_ns, steepness_)))
    return;
  level->lasting.Become(level->recent);
}

void Policy::NoteCost(int64_t now_ns, Depth depth, bool was_cut) noexcept {
  Level& level = levels_[IndexOf(depth)];
  const Overhead mean = Mean(now_ns, depth), tail = Tail(now_ns, depth);
  const bool is_dear = was_cut || IsOver(mean, kSure) || IsOver(tail, kSure);
  level.probe_gap_ns = is_dear ? std::clamp(2 * level.probe_gap_ns, kFirstGapNs, kLongestGapNs) : 0;
  level.probe_after_ns = now_ns + level.probe_gap_ns;
}

// The deepest one before `depth` that is known to fit the budget.
Depth Policy::DeepestWithin(int64_t now_ns, Depth depth) const noexcept {
  uint32_t i = IndexOf(depth) - 1;
  while (i > 0 && !(IsAvailable(static_cast<Depth>(i)) && IsWithin(now_ns, static_cast<Depth>(i)))) --i;
  return static_cast<Depth>(i);
}

void Policy::MoveBase(int64_t now_ns) noexcept {
  if (base_ != Depth::kScopes) {
    if (const char* const why = WhyOver(now_ns, base_)) {
      Level& level = levels_[IndexOf(base_)];
      if (now_ns - base_since_ns_ >= kLongestPauseNs) level.base_pause_ns = 0;
      level.base_pause_ns = std::clamp(2 * level.base_pause_ns, kFirstPauseNs, kLongestPauseNs);
      level.base_after_ns = now_ns + level.base_pause_ns;
      return StepTo(now_ns, DeepestWithin(now_ns, base_), why);
    }
  }
  for (uint32_t i = kDepths - 1; i > IndexOf(base_); --i) {
    const Depth depth = static_cast<Depth>(i);
    if (IsAvailable(depth) && now_ns >= levels_[i].base_after_ns && IsWithin(now_ns, depth))
      return StepTo(now_ns, depth, "cost within the budget");
  }
}

void Policy::StepTo(int64_t now_ns, Depth depth, const char* reason) noexcept {
  steps_[step_count_++ % kStepsKept] = {now_ns, base_, depth, reason};
  base_ = depth;
  base_since_ns_ = now_ns;
}

// How many more works pass the p99 at this overhead. The p99 of a mixture of depths is that of none, but works beyond a
// mark add up.
double Policy::Passing(double overhead) const noexcept {
  constexpr double kAllPass = 99;  // a hundred times as many as the one in a hundred
  return std::min(std::expm1(steepness_ * std::log1p(std::max(overhead, -0.5))), kAllPass);
}

// The feared overheads: capped at the cost assumed for an unmeasured depth, unless more was measured.
double Policy::MeanFeared(int64_t now_ns, Depth depth) const noexcept {
  const Overhead mean = Mean(now_ns, depth);
  return std::max(mean.value, mean.is_known ? std::min(mean.high, kFeared) : kFeared);
}
double Policy::PassingFeared(int64_t now_ns, Depth depth) const noexcept {
  const Overhead tail = Tail(now_ns, depth);
  const double feared = std::min(kTailFeared * MeanFeared(now_ns, depth), kFeared);
  return Passing(std::max(tail.value, tail.is_known ? std::min(tail.high, kFeared) : feared));
}

// The budget left beyond the base's cost, divided by the depth's feared cost above the base.
double Policy::ExploredShare(int64_t now_ns, Depth depth) const noexcept {
  const auto share = [](double left, double feared) { return left <= 0 ? 0 : feared <= left ? 1 : left / feared; };
  const bool is_above_scopes = base_ != Depth::kScopes;
  const double mean = is_above_scopes ? std::max(Mean(now_ns, base_).value, 0.0) : 0;
  const double passing = is_above_scopes ? Passing(std::max(Tail(now_ns, base_).low, 0.0)) : 0;
  const double armed = std::min(armed_share_ * MeanFeared(now_ns, deepest()), kMostForArmed * budget_);
  double tail_share = share(Passing(budget_) - passing, PassingFeared(now_ns, depth) - passing);
  // An advance for a depth without bad news. If its tail were feared from the first round on, narrow tails would leave
  // it one block in ten minutes. Even if it doubled every duration, this alone would hold the budget on the mean.
  if (Rounds(now_ns, depth) < Contrast::kLeastRounds && Mean(now_ns, depth).value <= kFeared)
    tail_share = std::max(tail_share, budget_);
  return std::min({is_above_scopes ? kMostExploredAboveScopes : kMostExplored, tail_share,
                   share(budget_ - armed - mean, MeanFeared(now_ns, depth) - mean)});
}

Depth Policy::Candidate(Lots* lots) const noexcept {
  const Depth next = NextDeeper();
  if (next == base_ || lots->Draw() >= kFurther) return next;
  const auto further = static_cast<uint32_t>(lots->Draw() * (kDepths - 1 - IndexOf(next)));
  const Depth depth = static_cast<Depth>(IndexOf(next) + 1 + further);
  return IsAvailable(depth) ? depth : next;
}

Policy::Next Policy::Draw(int64_t now_ns, Lots* lots, Depth (&depths)[Round::kBlocks]) noexcept {
  double explored = 0;
  const Depth candidate = Candidate(lots);
  if (candidate != base_ && now_ns >= levels_[IndexOf(candidate)].probe_after_ns)
    explored = ExploredShare(now_ns, candidate);
  const double share = std::max(explored, base_ == Depth::kScopes ? 0 : kComparedShare);
  // A round takes its three blocks and one to settle, with one of them at the depth in question; a rest takes one. If
  // rounds are drawn with probability q, then q in 1 + 3 q blocks are at that depth: solved for q.
  if (lots->Draw() >= share / (1 - 3 * share)) return Next::kRest;
  const bool explores = lots->Draw() * share < explored;
  depths[0] = Depth::kScopes;
  depths[1] = base_;
  depths[2] = explores ? candidate : base_;
  return Next::kRound;
}

}  // namespace pitot::governor
