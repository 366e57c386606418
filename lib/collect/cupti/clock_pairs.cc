// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/clock_pairs.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include <cstdlib>

#include "base/clock.h"

namespace pitot::cupti {

namespace {

uint64_t Ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return 0;
#endif
}

}  // namespace

ClockPair ReadClockPair() noexcept {
  ClockPair best;
  int64_t least_ns = INT64_MAX;
  for (int i = 0; i < 5; ++i) {
    const int64_t before_ns = base::ClockNs(CLOCK_MONOTONIC);
    const int64_t realtime_ns = base::ClockNs(CLOCK_REALTIME);
    const uint64_t ticks = Ticks();
    const int64_t took_ns = base::ClockNs(CLOCK_MONOTONIC) - before_ns;
    if (took_ns < least_ns) {
      least_ns = took_ns;
      best = {realtime_ns, before_ns + took_ns / 2, ticks, took_ns / 2 + 1};
    }
  }
  return best;
}

int64_t ClockPairs::MostErrorNs() const noexcept {
  int64_t most_ns = 0;
  for (uint32_t i = 0; i < count_; ++i) most_ns = std::max(most_ns, At(i).error_ns);
  return most_ns;
}

int64_t ClockPairs::Add(const ClockPair& pair) noexcept {
  const uint64_t next = first_ + count_;
  if (count_ == 0) {
    kept_[next % kKept] = {pair, next};
    count_ = 1;
    return 0;
  }
  const Kept last = kept_[(next - 1) % kKept];
  const int64_t by_ns = Offset(last.pair) - Offset(pair);
  const int64_t explained_ns =
      kStepNs + (pair.monotonic_ns - last.pair.monotonic_ns) / kSlewNs + last.pair.error_ns + pair.error_ns;
  const bool is_step = std::llabs(by_ns) > explained_ns;
  if (is_step && std::llabs(by_ns) > kStampErrorNs) {
    if (settled_ns_ < last.pair.monotonic_ns) unsettled_ns_ = last.pair.monotonic_ns;
    settled_ns_ = pair.monotonic_ns + kSettleNs;
  }
  // Readings next to a step bound its moment.
  const bool is_needed =
      is_step || last.run == next - 1 || last.pair.monotonic_ns - At(count_ - 2).monotonic_ns >= kApartNs;
  if (!is_needed) {
    kept_[(next - 1) % kKept].pair = pair;
    return 0;
  }
  kept_[next % kKept] = {pair, is_step ? next : last.run};
  if (count_ == kKept)
    ++first_;
  else
    ++count_;
  return is_step ? by_ns : 0;
}

int64_t ClockPairs::LatestNs() const {
  const ClockPair& last = At(count_ - 1);
  return last.monotonic_ns + last.error_ns + kStampErrorNs;
}

uint32_t ClockPairs::RunBefore(uint32_t end) const {
  const uint64_t run = kept_[(first_ + end - 1) % kKept].run;
  return run > first_ ? static_cast<uint32_t>(run - first_) : 0;
}

Conversion ClockPairs::ToMonotonic(uint64_t cupti_ns, Stamper by, int64_t* monotonic_ns) const {
  constexpr uint64_t kMostNs = uint64_t{1} << 62;  // leaves room for additions
  if (count_ == 0 || cupti_ns > kMostNs) return Conversion::kNoTime;
  if (cupti_ns < kLeastNs) return FromTicks(cupti_ns, monotonic_ns);
  // CUPTI converts the GPU's stamps when it hands them over.
  if (by == Stamper::kGpu && At(count_ - 1).monotonic_ns < settled_ns_) return Conversion::kNotPlaced;
  const Conversion how = FromRealtime(static_cast<int64_t>(cupti_ns), monotonic_ns);
  if (by == Stamper::kHost || how != Conversion::kByRealtime) return how;
  return *monotonic_ns >= unsettled_ns_ && *monotonic_ns < settled_ns_ ? Conversion::kNotPlaced : how;
}

Conversion ClockPairs::FromRealtime(int64_t ns, int64_t* monotonic_ns) const {
  uint32_t begin = RunBefore(count_);
  if (begin == 0) {
    *monotonic_ns = FromRun(0, count_, ns);
    return *monotonic_ns <= LatestNs() ? Conversion::kByRealtime : Conversion::kNoTime;
  }
  int fits = 0;
  for (uint32_t end = count_;; end = begin, begin = RunBefore(end)) {
    // A run may have begun just after the last reading before its first, and gone on until the first after its last.
    const int64_t earliest_ns = At(begin != 0 ? begin - 1 : 0).monotonic_ns - kStampErrorNs;
    const int64_t latest_ns = end == count_ ? LatestNs() : At(end).monotonic_ns + kStampErrorNs;
    const int64_t at_ns = FromRun(begin, end, ns);
    if (at_ns >= earliest_ns && at_ns <= latest_ns) *monotonic_ns = at_ns, ++fits;
    if (begin == 0) break;
  }
  return fits == 1 ? Conversion::kByRealtime : Conversion::kNotPlaced;
}

int64_t ClockPairs::FromRun(uint32_t begin, uint32_t end, int64_t ns) const {
  // Records are recent, so search from the end.
  uint32_t after = end;
  while (after > begin && At(after - 1).realtime_ns > ns) --after;
  if (after == begin) return ns + Offset(At(begin));
  if (after == end) return ns + Offset(At(end - 1));
  const ClockPair &a = At(after - 1), &b = At(after);
  const int64_t change = Offset(b) - Offset(a), whole = b.realtime_ns - a.realtime_ns, part = ns - a.realtime_ns;
  return ns + Offset(a) +
         static_cast<int64_t>(static_cast<double>(change) * static_cast<double>(part) / static_cast<double>(whole));
}

// Converts by the oldest and the newest reading: the counter is steady.
Conversion ClockPairs::FromTicks(uint64_t ticks, int64_t* monotonic_ns) const {
  const ClockPair &first = At(0), &last = At(count_ - 1);
  if (first.ticks == 0 || last.ticks <= first.ticks) return Conversion::kNoTime;
  const double ns_per_tick =
      static_cast<double>(last.monotonic_ns - first.monotonic_ns) / static_cast<double>(last.ticks - first.ticks);
  const auto since = static_cast<int64_t>(ticks) - static_cast<int64_t>(last.ticks);
  const double since_ns = static_cast<double>(since) * ns_per_tick;
  // A stamp of another counter, or of none.
  constexpr double kFarNs = 60e9;
  if (since_ns < -kFarNs || since_ns > kFarNs) return Conversion::kNoTime;
  *monotonic_ns = last.monotonic_ns + static_cast<int64_t>(since_ns);
  return *monotonic_ns <= LatestNs() ? Conversion::kByCycles : Conversion::kNoTime;
}

}  // namespace pitot::cupti
