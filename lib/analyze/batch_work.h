// SPDX-License-Identifier: Apache-2.0
//
// How long batches were at work: once they waited for no more members, and not while they got no CPU.
#ifndef PITOT_LIB_ANALYZE_BATCH_WORK_H_
#define PITOT_LIB_ANALYZE_BATCH_WORK_H_

#include <vector>

#include "pitot/model/intervals.h"
#include "pitot/model/trace.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

struct BatchTime {
  model::Interval when;  // without the waits that its thread begins it with: its window
  int64_t work_ns = 0;   // of that; less what its thread waited for a CPU, where counters of the host tell (a27)
};

// Of each batch; 0 of those that are open, and of iterations, whose requests and prompts change (a29's).
// O(n log n) of the events where there are such counters, else O(n).
std::vector<BatchTime> BatchTimes(const model::Trace& trace);
// The same as if threads always had a CPU. O(n).
std::vector<BatchTime> BatchWindows(const model::Trace& trace);

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_BATCH_WORK_H_
