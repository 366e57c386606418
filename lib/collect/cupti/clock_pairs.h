// SPDX-License-Identifier: Apache-2.0
//
// Converts CUPTI's stamps. CUPTI stamps with CLOCK_REALTIME, which is slewed and stepped. Once PyTorch's profiler has
// told it to, it uses the CPU's cycle counter instead. Both are read next to CLOCK_MONOTONIC, and readings are kept for
// as long as records may be on their way. A step lies at an unknown moment between two readings. So stamps possibly
// from before it or after it are left out.
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
  int64_t error_ns = 0;      // how far from one moment they may be
};

// The best of five readings: CLOCK_REALTIME between two close ones of CLOCK_MONOTONIC. Cost: 0.3 us.
ClockPair ReadClockPair() noexcept;

class ClockPairs final : public Clock {
 public:
  // Adds readings in their order, as often as one likes: those next to a step are kept, and one in 100 ms. Returns the
  // step of CLOCK_REALTIME since the reading before, ns; 0: there was none. Cost: none to speak of.
  int64_t Add(const ClockPair& pair) noexcept;
  // Converts stamps made before the last reading. Between two readings they are converted in proportion, before the
  // first and after the last by that reading alone. Around a step, a stamp must fit one side alone, and nothing of the
  // GPU's is converted while CUPTI errs about the step. Cycles likewise.
  Conversion ToMonotonic(uint64_t cupti_ns, Stamper by, int64_t* monotonic_ns) const override;
  // The largest distance of a kept reading's clocks from one moment. Conversions err by this, and by CUPTI's own error
  // when it converts the GPU's stamps. O(readings).
  int64_t MostErrorNs() const noexcept;

 private:
  static constexpr uint32_t kKept = 256;  // for 25 s
  static constexpr int64_t kApartNs = 100'000'000;
  static constexpr int64_t kStepNs = 50'000;           // beyond readings' errors and slewing
  static constexpr int64_t kSlewNs = 2000;             // in which 1 ns may be slewed: 500 ppm
  static constexpr int64_t kStampErrorNs = 1'000'000;  // CUPTI converts the GPU's stamps by readings of its own
  // CUPTI 13.0 notices a step within 5 s, spreads it over the next 5 s, and is right again (docs/lab/gpu.md).
  static constexpr int64_t kSettleNs = 12'000'000'000;
  static constexpr uint64_t kLeastNs = 1'000'000'000'000'000'000;  // September 2001

  struct Kept {
    ClockPair pair;
    uint64_t run;  // number of the first one since the step before it
  };

  Conversion FromRealtime(int64_t ns, int64_t* monotonic_ns) const;
  Conversion FromTicks(uint64_t ticks, int64_t* monotonic_ns) const;
  // Converts by the readings from `begin` to `end`, without a step between them.
  int64_t FromRun(uint32_t begin, uint32_t end, int64_t ns) const;
  // No stamp is later than this.
  int64_t LatestNs() const;
  const ClockPair& At(uint32_t i) const { return kept_[(first_ + i) % kKept].pair; }
  // The beginning of the run that ends before `end`.
  uint32_t RunBefore(uint32_t end) const;
  static int64_t Offset(const ClockPair& pair) { return pair.monotonic_ns - pair.realtime_ns; }

  std::array<Kept, kKept> kept_;  // by number % kKept
  uint64_t first_ = 0;            // number of the oldest
  uint32_t count_ = 0;
  // From the last step above CUPTI's own error until CUPTI no longer errs.
  int64_t unsettled_ns_ = INT64_MIN, settled_ns_ = INT64_MIN;
};

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_CLOCK_PAIRS_H_
