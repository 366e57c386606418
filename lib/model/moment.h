// SPDX-License-Identifier: Apache-2.0
//
// Moments of a trace in the words of reports and tools.
#ifndef PITOT_LIB_MODEL_MOMENT_H_
#define PITOT_LIB_MODEL_MOMENT_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/columns.h"
#include "pitot/model/trace.h"

namespace pitot::model {

// False for traces of other tools that only have times since some begin.
inline bool HasDate(const Trace& trace) { return trace.clock.realtime_ns != 0; }

// "02:31:17.123"; without a date the time since the window's begin, "+1.50 ms".
inline std::string MomentText(const Trace& trace, int64_t at_ns) {
  if (!HasDate(trace)) return "+" + base::Duration(std::max<int64_t>(0, at_ns - trace.window_begin_ns));
  return base::TimeOfDay(at_ns - trace.clock.monotonic_ns + trace.clock.realtime_ns);
}

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_MOMENT_H_
