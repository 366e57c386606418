// SPDX-License-Identifier: Apache-2.0
//
// The governor's knowledge and actions. A plain copy of bounded size.
#ifndef PITOT_LIB_GOVERNOR_REPORT_H_
#define PITOT_LIB_GOVERNOR_REPORT_H_

#include <stdint.h>

#include "governor/policy.h"
#include "pitot/depth.h"

namespace pitot::governor {

// An overhead against scopes only, percent, with its 95 % interval.
struct Estimate {
  bool is_known;  // false: unknown, and the rest means nothing
  double percent, low_percent, high_percent;
};

// The cost of one depth. For scopes, the reference of the others, only the time is given.
struct DepthReport {
  bool is_available;
  Estimate mean;  // on the mean duration of works
  Estimate p99;   // on the p99 of their durations
  // The basis of the two, of today's weight: less as it ages, 0 once it is forgotten. Each round has a block of this
  // depth and one of scopes; works are those of the arm with fewer.
  double rounds, works;
  double time_percent;  // of the time since the first tick, recorded at this depth, armed time included
};

struct Report {
  char state[96];  // "holding graphs; measuring kernels"
  Depth depth;     // in force
  Depth base;      // while nothing is tried and nothing is armed
  // On the mean, for recording as in the last ten minutes or so: the depths' costs by their shares of that time.
  Estimate cost;
  DepthReport depths[kDepths];
  double armed_percent;  // of the time
  uint32_t step_count;   // listed here, oldest first
  Step steps[Policy::kStepsKept];
  uint64_t steps_total;
  uint64_t rounds_begun, rounds_void;  // void: armed, a depth became unavailable, or the watcher came late
  uint64_t notes_taken;
  uint64_t notes_lost;     // without room in the queue
  uint64_t notes_refused;  // times below 0 or in the future, or an end before the beginning
};

}  // namespace pitot::governor

#endif  // PITOT_LIB_GOVERNOR_REPORT_H_
