// SPDX-License-Identifier: Apache-2.0
//
// What the governor knows and has done. A plain copy of bounded size.
#ifndef PITOT_LIB_GOVERNOR_REPORT_H_
#define PITOT_LIB_GOVERNOR_REPORT_H_

#include <stdint.h>

#include "governor/policy.h"
#include "pitot/depth.h"

namespace pitot::governor {

// An overhead against scopes only, percent, with its 95 % interval.
struct Estimate {
  bool is_known;  // false: unknown, and the rest says nothing
  double percent, low_percent, high_percent;
};

// What one depth costs. Of scopes, which the others are measured against, only the time is told.
struct DepthReport {
  bool is_available;
  Estimate mean;  // on the mean duration of works
  Estimate p99;   // on the p99 of their durations
  // What the two rest on, of today's weight: less as it ages, 0 when it is forgotten. Each round has a block of this
  // depth and one of scopes; works are of the arm that has fewer.
  double rounds, works;
  double time_percent;  // of the time since the first tick that was recorded at this depth, armed time included
};

struct Report {
  char state[96];  // "holding graphs; measuring kernels"
  Depth depth;     // in force
  Depth base;      // when nothing is tried out and nothing is armed
  // Of recording as in the last ten minutes or so, on the mean: what the depths cost by their shares of that time.
  Estimate cost;
  DepthReport depths[kDepths];
  double armed_percent;  // of the time
  uint32_t step_count;   // listed here, oldest first
  Step steps[Policy::kStepsKept];
  uint64_t steps_total;
  uint64_t rounds_begun, rounds_void;  // void: armed, a depth became unavailable, or the watcher came late
  uint64_t notes_taken;
  uint64_t notes_lost;     // found no room
  uint64_t notes_refused;  // times below 0 or in the future, or an end before the beginning
};

}  // namespace pitot::governor

#endif  // PITOT_LIB_GOVERNOR_REPORT_H_
