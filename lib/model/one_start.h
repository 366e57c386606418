// SPDX-License-Identifier: Apache-2.0
//
// Whether two traces have one clock, or are of one process.
#ifndef PITOT_LIB_MODEL_ONE_START_H_
#define PITOT_LIB_MODEL_ONE_START_H_

#include <cstdint>
#include <cstdlib>

#include "pitot/model/trace.h"

namespace pitot::model {

// Whether both were recorded on one machine since its last start, so that their monotonic clocks are one. The head of a
// dump does not tell its host: two heads are compared by the start alone.
inline bool AreOfOneStart(const Trace& a, const Trace& b) {
  constexpr int64_t kSecondNs = 1'000'000'000;
  if (a.clock.boottime_ns == 0 || b.clock.boottime_ns == 0 || a.AttributeOf("host") != b.AttributeOf("host"))
    return false;
  const int64_t a_start_ns = a.clock.realtime_ns - a.clock.boottime_ns,
                b_start_ns = b.clock.realtime_ns - b.clock.boottime_ns;
  return std::abs(a_start_ns - b_start_ns) < kSecondNs;
}

// Whether nothing shows that they are of two processes. They have one number since one start, and if their windows
// overlap, a request or an event in common: in containers, all first processes have the number 1. O(n log n).
bool MayBeOfOneProcess(const Trace& a, const Trace& b);

inline bool DoOverlap(const Trace& a, const Trace& b) {
  return a.window_begin_ns <= b.window_end_ns && b.window_begin_ns <= a.window_end_ns;
}

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_ONE_START_H_
