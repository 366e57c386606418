// SPDX-License-Identifier: Apache-2.0
//
// What a trace can count: a value that was not measured is not 0.
#ifndef PITOT_LIB_ANALYZE_FACTS_RECORDED_H_
#define PITOT_LIB_ANALYZE_FACTS_RECORDED_H_

#include <limits>

#include "model/recorded.h"

namespace pitot::facts {

// The value of a measure that was not recorded.
inline constexpr double kNotRecorded = std::numeric_limits<double>::quiet_NaN();

using model::HasGpuWork;
using model::RecordedIn;
// Whether calls of a GPU's API were recorded, be it only those that wait.
inline bool HasCalls(const model::Trace& trace) { return trace.calls.size() != 0 || HasGpuWork(trace); }

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_RECORDED_H_
