// SPDX-License-Identifier: Apache-2.0
//
// How long batches were at work, without their waits for more members and for a CPU.
#ifndef PITOT_LIB_ANALYZE_BLAME_BATCH_WORK_H_
#define PITOT_LIB_ANALYZE_BLAME_BATCH_WORK_H_

#include <vector>

#include "pitot/extend/analyzer.h"
#include "pitot/model/intervals.h"
#include "pitot/model/trace.h"

namespace pitot::blame {

struct BatchTime {
  model::Interval when;  // without the waits at its beginning (its window)
  int64_t work_ns = 0;   // of that, without the thread's waits for a CPU, where counters of the host tell (a27)
};

// The work of each batch; 0 for open ones, and for iterations, where requests and prompts change (a29 has those). With
// such counters it takes the index shared by the analyzers. O(n). Throws Over.
std::vector<BatchTime> BatchTimes(Analysis& analysis);
// The same, as if threads always had a CPU. O(n).
std::vector<BatchTime> BatchWindows(const model::Trace& trace);

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_BATCH_WORK_H_
