// SPDX-License-Identifier: Apache-2.0
//
// What clocks were while everything was slower.
#ifndef PITOT_LIB_ANALYZE_FACTS_CLOCK_STATE_H_
#define PITOT_LIB_ANALYZE_FACTS_CLOCK_STATE_H_

#include <string>

#include "pitot/model/intervals.h"
#include "pitot/model/trace.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// A clock that is lower by this share is low (msprof).
inline constexpr double kClockDrop = 0.05;

// Clocks of GPUs and CPUs (pitot::nvml, pitot::host) that were lower than in most of the window, by kClockDrop at
// least: "SM clock of GPU 0 (NVIDIA H100) at 1200 MHz, else 1980 MHz". "no clock that was recorded was lower" where
// none was; "" where none was recorded then. O(n log n) of their samples.
std::string ClockState(const model::Trace& trace, model::Interval when);

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_FACTS_CLOCK_STATE_H_
