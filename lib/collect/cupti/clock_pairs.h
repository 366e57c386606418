// SPDX-License-Identifier: Apache-2.0
//
// CUPTI stamps with CLOCK_REALTIME, which is slewed and stepped; or, once PyTorch's profiler has told it to, with the
// CPU's cycle counter. Readings of both beside CLOCK_MONOTONIC, kept for as long as records may be on their way,
// convert.
#ifndef PITOT_LIB_COLLECT_CUPTI_CLOCK_PAIRS_H_
#define PITOT_LIB_COLLECT_CUPTI_CLOCK_PAIRS_H_

#include <array>
#include <cstdint>

#include "collect/cupti/decode.h"

namespace pitot::cupti {

struct ClockPair {
  int64_t realtime_ns = 0;
  int64_t monotonic_ns = 0;  // at the same moment
  uint64_t ticks = 0;        // of the cycle counter; 0: there is none
};

// The best of five readings: CLOCK_REALTIME between two of CLOCK_MONOTONIC that are close. Cost: 0.3 us.
ClockPair ReadClockPair() noexcept;

class ClockPairs final : public Clock {
 public:
  // Readings in the order they were taken. Cost: none to speak of.
  void Add(const ClockPair& pair) noexcept;
  // Between two readings in proportion, unless the clock was stepped there: then as the nearer says. Before the first
  // and after the last as those say. Cycles likewise. False if it is neither.
  bool ToMonotonic(uint64_t cupti_ns, int64_t* monotonic_ns) const override;
  uint64_t steps() const { return steps_; }

 private:
  static constexpr uint32_t kKept = 256;                           // at 10 Hz: 25 s
  static constexpr int64_t kStepNs = 50'000;                       // between two readings; slewing is at most 500 ppm
  static constexpr uint64_t kLeastNs = 1'000'000'000'000'000'000;  // September 2001

  bool FromTicks(uint64_t ticks, int64_t* monotonic_ns) const;
  const ClockPair& At(uint32_t i) const { return pairs_[(first_ + i) % kKept]; }
  static int64_t Offset(const ClockPair& pair) { return pair.monotonic_ns - pair.realtime_ns; }

  std::array<ClockPair, kKept> pairs_;
  uint32_t first_ = 0, count_ = 0;
  uint64_t steps_ = 0;
};

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_CLOCK_PAIRS_H_
