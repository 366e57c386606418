// SPDX-License-Identifier: Apache-2.0
//
// The values of a counter as intervals.
#ifndef PITOT_LIB_MODEL_HELD_H_
#define PITOT_LIB_MODEL_HELD_H_

#include <cstdint>
#include <vector>

#include "pitot/model/intervals.h"
#include "pitot/model/trace.h"

namespace pitot::model {

// GPU state is sampled when it changes and once a second. After this time without a sample it is unknown
// (docs/guide/nvml.md). Throttle reasons are sampled only when they change, and hold until then.
inline constexpr int64_t kHoldsNs = 2'500'000'000;
inline constexpr int64_t kHoldsOnNs = kMaxTimeNs - 1;  // added to a time it does not overflow

// A value, and the part of the window in which the counter had it.
struct Held {
  double value;
  Interval when;
  int64_t ns() const { return when.end_ns - when.begin_ns; }
};

// In the order of time, without empty intervals. Cost: O(log n) plus the size of the result.
std::vector<Held> ValuesOf(const Trace& trace, uint32_t counter, int64_t holds_ns = kHoldsNs);

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_HELD_H_
