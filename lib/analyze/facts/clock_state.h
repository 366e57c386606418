// SPDX-License-Identifier: Apache-2.0
//
// The state of clocks while everything was slower.
#ifndef PITOT_LIB_ANALYZE_FACTS_CLOCK_STATE_H_
#define PITOT_LIB_ANALYZE_FACTS_CLOCK_STATE_H_

#include <string>

#include "pitot/model/intervals.h"
#include "pitot/model/trace.h"

namespace pitot::facts {

// A clock is low if it is lower by this share (msprof).
inline constexpr double kClockDrop = 0.05;

// Names the clocks of GPUs and CPUs (pitot::nvml, pitot::host) that were lower in `when` than in most of the window, by
// kClockDrop at least. "SM clock of GPU 0 (NVIDIA H100)" is one; its two values follow. If none was lower it says so;
// "" if none was recorded then. O(n log n) of their samples.
std::string ClockState(const model::Trace& trace, model::Interval when);

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_CLOCK_STATE_H_
