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
    if (took_ns < least_ns) least_ns = took_ns, best = {realtime_ns, before_ns + took_ns / 2, ticks};
  }
  return best;
}

void ClockPairs::Add(const ClockPair& pair) noexcept {
  if (count_ != 0) steps_ += std::llabs(Offset(pair) - Offset(At(count_ - 1))) > kStepNs;
  if (count_ == kKept)
    first_ = (first_ + 1) % kKept;
  else
    ++count_;
  pairs_[(first_ + count_ - 1) % kKept] = pair;
}

bool ClockPairs::ToMonotonic(uint64_t cupti_ns, int64_t* monotonic_ns) const {
  constexpr uint64_t kMostNs = uint64_t{1} << 62;  // what is added to it has room
  if (count_ == 0 || cupti_ns > kMostNs) return false;
  if (cupti_ns < kLeastNs) return FromTicks(cupti_ns, monotonic_ns);
  const auto ns = static_cast<int64_t>(cupti_ns);
  // Records are recent. A clock that was stepped back has readings out of order: the last that fits counts.
  uint32_t after = count_;
  while (after > 0 && At(after - 1).realtime_ns > ns) --after;
  int64_t offset;
  if (after == 0) {
    offset = Offset(At(0));
  } else if (after == count_) {
    offset = Offset(At(count_ - 1));
  } else {
    const ClockPair &a = At(after - 1), &b = At(after);
    const int64_t change = Offset(b) - Offset(a), whole = b.realtime_ns - a.realtime_ns, part = ns - a.realtime_ns;
    if (std::llabs(change) > kStepNs)
      offset = part < whole - part ? Offset(a) : Offset(b);
    else
      offset = Offset(a) + static_cast<int64_t>(static_cast<double>(change) * static_cast<double>(part) /
                                                static_cast<double>(whole));
  }
  *monotonic_ns = ns + offset;
  return true;
}

// By the oldest and the newest reading: the counter is steady.
bool ClockPairs::FromTicks(uint64_t ticks, int64_t* monotonic_ns) const {
  const ClockPair &first = At(0), &last = At(count_ - 1);
  if (first.ticks == 0 || last.ticks <= first.ticks) return false;
  const double ns_per_tick =
      static_cast<double>(last.monotonic_ns - first.monotonic_ns) / static_cast<double>(last.ticks - first.ticks);
  const auto since = static_cast<int64_t>(ticks) - static_cast<int64_t>(last.ticks);
  const double since_ns = static_cast<double>(since) * ns_per_tick;
  // Of another counter, or of nobody's.
  constexpr double kFarNs = 60e9;
  if (since_ns < -kFarNs || since_ns > kFarNs) return false;
  *monotonic_ns = last.monotonic_ns + static_cast<int64_t>(since_ns);
  return true;
}

}  // namespace pitot::cupti
