// SPDX-License-Identifier: Apache-2.0
//
// The recorder's clock: the counter that stamps events, and the conversion of its ticks to nanoseconds.
#ifndef PITOT_LIB_TRACE_CLOCK_H_
#define PITOT_LIB_TRACE_CLOCK_H_

#include <cstdint>

#include "pitot/options.h"
#include "pitot/trace.h"

namespace pitot::trace {

// All clocks, read back to back. `ticks` is the middle of the tightest of several brackets, `width_ns` its width.
struct ClockReading {
  uint64_t ticks = 0;
  int64_t monotonic_ns = 0;
  int64_t realtime_ns = 0;
  int64_t boottime_ns = 0;
  int64_t width_ns = 0;
};

// Converts ticks to CLOCK_MONOTONIC through two readings: exact at both, linear around them.
struct ClockMap {
  ClockReading first, last;
  int64_t Ns(uint64_t ticks) const;
  double TicksPerNs() const;
};

// Whether the CPU's cycle counter runs at one rate, through all sleep states, on all CPUs. If not, gives the reason.
bool CycleCounterIsInvariant(const char** why_not);

// Whether this source needs the slow clock: g_gate is then without kFastClock. `*available` is false if the source is
// not available.
bool NeedsSlowClock(ClockSource source, bool* available);

ClockReading ReadClocks(bool slow);

// The ticks of now, of the slow clock or of the CPU's counter.
inline uint64_t NowTicks(bool slow) { return detail::Clock(slow ? 0 : detail::kFastClock); }

// CLOCK_MONOTONIC, ns.
int64_t MonotonicNs();

// Replaces the slow clock (not the cycle counter) in tests; null restores the system's.
void SetClockForTesting(uint64_t (*now_ns)());

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_CLOCK_H_
