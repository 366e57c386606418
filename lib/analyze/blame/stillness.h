// SPDX-License-Identifier: Apache-2.0
//
// When the whole process stood still: stopped by a signal or a debugger, frozen, or on a paused virtual machine
// (docs/reference/walk.md#a-process-that-stood-still).
#ifndef PITOT_LIB_ANALYZE_BLAME_STILLNESS_H_
#define PITOT_LIB_ANALYZE_BLAME_STILLNESS_H_

#include <cstdint>
#include <vector>

#include "analyze/blame/namespace.h"
#include "model/parts.h"
#include "pitot/model/intervals.h"
#include "pitot/model/trace.h"

namespace pitot::blame {

class Stillness {
 public:
  // O(n) in events and samples. Keeps no reference to the trace.
  explicit Stillness(const model::Trace& trace);
  // How much of the time between two moments the thread's process stood still. kNone: the trace's process; 0 in a
  // joined trace (model/parts.h).
  int64_t StillNs(uint32_t thread, int64_t begin_ns, int64_t end_ns) const {
    return NsOf(&Process::still, thread, begin_ns, end_ns);
  }
  // The same, without times in which it may have had no CPU: tasks of the machine waited for one most of the time.
  int64_t StillWithCpusNs(uint32_t thread, int64_t begin_ns, int64_t end_ns) const {
    return NsOf(&Process::with_cpus, thread, begin_ns, end_ns);
  }

 private:
  struct Process {
    uint32_t part;
    model::Intervals still, with_cpus;
  };
  int64_t NsOf(model::Intervals Process::*times, uint32_t thread, int64_t begin_ns, int64_t end_ns) const;
  void Find(const model::Trace& trace, const model::Parts& parts, Process* process) const;

  std::vector<Process> processes_;
  std::vector<uint32_t> parts_;  // of threads
};

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_STILLNESS_H_
