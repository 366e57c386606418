// SPDX-License-Identifier: Apache-2.0
//
// The recorder's measurements of itself, at its start and on request.
#ifndef PITOT_LIB_SESSION_CALIBRATE_H_
#define PITOT_LIB_SESSION_CALIBRATE_H_

#include <cstdint>

#include "trace/clock.h"

namespace pitot::session {

// Finds out how many ticks a nanosecond has (to about 1 in 10,000; traces use better readings, taken further apart) and
// returns the clocks. Takes a millisecond.
trace::ClockReading CalibrateTicks(bool slow_clock);

// The result of CalibrateTicks.
double TicksPerNs() noexcept;

// The cost of one scope on this machine, ns: the median of several runs on a ring of its own. Takes about 0.1 ms.
double CalibrateScopeCost(bool slow_clock);

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_CALIBRATE_H_
