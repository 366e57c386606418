// SPDX-License-Identifier: Apache-2.0
//
// How long batches were at work: once they waited for no more members, and not while they got no CPU.
#ifndef PITOT_LIB_ANALYZE_BLAME_BATCH_WORK_H_
#define PITOT_LIB_ANALYZE_BLAME_BATCH_WORK_H_

#include <vector>

#include "pitot/extend/analyzer.h"
#include "pitot/model/intervals.h"
#include "pitot/model/trace.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

struct BatchTime {
  model::Interval when;  // without the waits that its thread begins it with: its window
  int64_t work_ns = 0;   // of that; less what its thread waited for a CPU, where counters of the host tell (a27)
};

// Of each batch; 0 of those that are open, and of iterations, whose requests and prompts change (a29's).
// Where there are such counters it takes the index that analyzers share. O(n). Throws Over.
std::vector<BatchTime> BatchTimes(Analysis& analysis);
// The same as if threads always had a CPU. O(n).
std::vector<BatchTime> BatchWindows(const model::Trace& trace);

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_BLAME_BATCH_WORK_H_
