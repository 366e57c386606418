// SPDX-License-Identifier: Apache-2.0
//
// When the whole process stood still: stopped by a signal or a debugger, frozen, or on a paused virtual machine
// (docs/reference/walk.md#a-process-that-stood-still).
#ifndef PITOT_LIB_ANALYZE_BLAME_STILLNESS_H_
#define PITOT_LIB_ANALYZE_BLAME_STILLNESS_H_

#include <cstdint>

#include "analyze/blame/namespace.h"
#include "pitot/model/intervals.h"
#include "pitot/model/trace.h"

namespace pitot::blame {

class Stillness {
 public:
  // O(n) in events and samples. Keeps no reference to the trace.
  explicit Stillness(const model::Trace& trace);
  // How much of the time between two moments the process stood still.
  int64_t StillNs(int64_t begin_ns, int64_t end_ns) const { return NsOf(still_, begin_ns, end_ns); }
  // The same, without times in which it may have had no CPU: tasks of the machine waited for one most of the time.
  int64_t StillWithCpusNs(int64_t begin_ns, int64_t end_ns) const { return NsOf(with_cpus_, begin_ns, end_ns); }

 private:
  static int64_t NsOf(const model::Intervals& still, int64_t begin_ns, int64_t end_ns);

  model::Intervals still_, with_cpus_;
};

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_STILLNESS_H_
