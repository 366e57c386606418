// SPDX-License-Identifier: Apache-2.0
//
// Values of a counter as stretches of time.
#ifndef PITOT_LIB_MODEL_HELD_H_
#define PITOT_LIB_MODEL_HELD_H_

#include <cstdint>
#include <vector>

#include "pitot/model/intervals.h"
#include "pitot/model/trace.h"

namespace pitot::model {

// The state of GPUs is written when it changed and once a second: after so long without a value it is not known any
// more (docs/guide/nvml.md). Those of kinds of reasons are written only when they changed, and hold.
inline constexpr int64_t kHoldsNs = 2'500'000'000;
inline constexpr int64_t kHoldsOnNs = kMaxTimeNs - 1;  // a time and this fit

// A value and when in the window it was that.
struct Held {
  double value;
  Interval when;
  int64_t ns() const { return when.end_ns - when.begin_ns; }
};

// In their order; none is empty. O(log n), and of what is found.
std::vector<Held> ValuesOf(const Trace& trace, uint32_t counter, int64_t holds_ns = kHoldsNs);

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_HELD_H_
