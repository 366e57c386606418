// SPDX-License-Identifier: Apache-2.0
//
// Which rings are too short for the window, and how large they would have to be.
#ifndef PITOT_LIB_SESSION_RING_GROWTH_H_
#define PITOT_LIB_SESSION_RING_GROWTH_H_

#include <cstdint>

#include "session/ring_ages.h"

namespace pitot::session {

// The words that a ring needs to hold `window_ticks` at its pace, a power of two: `age_ticks` ago its oldest word was
// written. Its capacity, if that suffices or its pace is not known.
inline uint64_t WordsNeeded(const RingAt& ring, uint64_t age_ticks, uint64_t window_ticks) {
  constexpr double kMargin = 1.125;  // a pace is not steady
  constexpr uint64_t kMost = uint64_t{1} << 40;
  const uint64_t held = ring.head - OldestWord(ring);
  if (held < ring.capacity / 4) return ring.capacity;
  const double needed =
      kMargin * static_cast<double>(held) * static_cast<double>(window_ticks) / static_cast<double>(age_ticks + 1);
  uint64_t words = ring.capacity;
  while (words < kMost && static_cast<double>(words) < needed) words *= 2;
  return words;
}

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_RING_GROWTH_H_
