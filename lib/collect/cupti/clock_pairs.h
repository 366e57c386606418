// SPDX-License-Identifier: Apache-2.0
//
// CUPTI stamps with CLOCK_REALTIME, which is slewed and stepped; or, once PyTorch's profiler has told it to, with the
// CPU's cycle counter. Readings of both beside CLOCK_MONOTONIC, kept for as long as records may be on their way,
// convert. A step lies between two readings, nobody knows where: what may be of before it and of after it is left out.
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

// The best of five readings: CLOCK_REALTIME between two of CLOCK_MONOTONIC that are close. Cost: 0.3 us.
ClockPair ReadClockPair() noexcept;

class ClockPairs final : public Clock {
 public:
  // Readings in the order they were taken, as often as one likes: those beside a step are kept, and one in 100 ms.
  // Returns by how many ns CLOCK_REALTIME stepped since the one before; 0: it did not. Cost: none to speak of.
  int64_t Add(const ClockPair& pair) noexcept;
  // Of what was stamped before the last reading. Between two readings in proportion, before the first and after the
  // last as those say. Where the clock stepped, what fits one side of the step alone; nothing of the GPU's while CUPTI
  // errs about it. Cycles likewise.
  Conversion ToMonotonic(uint64_t cupti_ns, Stamper by, int64_t* monotonic_ns) const override;
  // How far at most the clocks of one of the readings kept may be from one moment: so far conversions err, beside what
  // CUPTI errs when it converts what the GPU stamps. O(readings).
  int64_t MostErrorNs() const noexcept;

 private:
  static constexpr uint32_t kKept = 256;  // of 25 s
  static constexpr int64_t kApartNs = 100'000'000;
  static constexpr int64_t kStepNs = 50'000;           // beyond what the readings and slewing explain
  static constexpr int64_t kSlewNs = 2000;             // of which 1 ns may be slewed: 500 ppm
  static constexpr int64_t kStampErrorNs = 1'000'000;  // CUPTI converts what the GPU stamps by readings of its own
  // CUPTI 13.0 sees a step within 5 s, spreads it over the next 5 s, and is right again (docs/lab/gpu.md).
  static constexpr int64_t kSettleNs = 12'000'000'000;
  static constexpr uint64_t kLeastNs = 1'000'000'000'000'000'000;  // September 2001

  struct Kept {
    ClockPair pair;
    uint64_t run;  // the number of the first since the step before it
  };

  Conversion FromRealtime(int64_t ns, int64_t* monotonic_ns) const;
  Conversion FromTicks(uint64_t ticks, int64_t* monotonic_ns) const;
  // By the readings from `begin` to `end`, between which is no step.
  int64_t FromRun(uint32_t begin, uint32_t end, int64_t ns) const;
  // Nothing was stamped later.
  int64_t LatestNs() const;
  const ClockPair& At(uint32_t i) const { return kept_[(first_ + i) % kKept].pair; }
  // Where the run begins that ends before `end`.
  uint32_t RunBefore(uint32_t end) const;
  static int64_t Offset(const ClockPair& pair) { return pair.monotonic_ns - pair.realtime_ns; }

  std::array<Kept, kKept> kept_;  // by number % kKept
  uint64_t first_ = 0;            // the number of the oldest
  uint32_t count_ = 0;
  // From the last step that is more than CUPTI may err on its own till it errs no more.
  int64_t unsettled_ns_ = INT64_MIN, settled_ns_ = INT64_MIN;
};

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_CLOCK_PAIRS_H_
