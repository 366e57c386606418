// SPDX-License-Identifier: Apache-2.0
//
// How much of a thread's code was not on a CPU, and why: what pitot::host recorded of it, held against what it did
// (docs/reference/why.md, "Code that did not run").
#ifndef PITOT_LIB_ANALYZE_BLAME_WALK_HOST_H_
#define PITOT_LIB_ANALYZE_BLAME_WALK_HOST_H_

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyze/blame/walk_gpu.h"
#include "analyze/blame/walk_threads.h"
#include "pitot/analyze/why.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// Whether the trace has such counters.
bool HasHostUse(const model::Trace& trace);

// Of a stretch of code; where in it is not known. Counters: rows of the trace that prove it.
struct OffCpu {
  int64_t runqueue_ns = 0;  // could run and got no CPU
  int64_t pagefault_ns = 0;
  int64_t blocked_ns = 0;
  uint32_t runqueue_counter = model::kNone, pagefault_counter = model::kNone, blocked_counter = model::kNone;
};

class HostUse {
 public:
  // O(n log n) of the samples and the pieces of threads that have some. The indexes must outlive nothing.
  HostUse(const model::Trace& trace, const Threads& threads, const GpuOps& gpu, const BlameOptions& options);

  // From when to when counters of the thread say something; empty: never.
  model::Interval KnownOf(uint32_t thread) const;
  // Of code, or a call that does not wait, with nothing else in it. The parts are no longer than it. O(log n), and of
  // the stretches.
  OffCpu OfCode(uint32_t thread, int64_t begin_ns, int64_t end_ns) const;
  // Of time in which the thread was in nothing that was recorded: what it waited for a CPU. What it did else nobody
  // knows.
  OffCpu OfUntraced(uint32_t thread, int64_t begin_ns, int64_t end_ns) const;
  // Whether the major faults in what of that time is blamed on them were so many, or the machine's I/O pressure grew by
  // so much, that they are known to have taken so long: else no more is known than that they can have. O(log n), and of
  // the stretches.
  bool AreFaultsProved(uint32_t thread, int64_t begin_ns, int64_t end_ns) const;
  // How long the CPU quota throttled the process between two moments; 0 where nobody says.
  int64_t ThrottledNs(int64_t begin_ns, int64_t end_ns) const;
  // How much the hypervisor took of the machine's CPUs, up to a second before and after included; 0 where nobody says.
  int64_t StolenNs(int64_t begin_ns, int64_t end_ns) const;
  // How much of its run-queue delay, between two readings of it (by their place), was taken for late wake-ups already.
  using Woken = std::unordered_map<size_t, int64_t>;
  // Of the time that a thread took to wake up: its run-queue delay that is in no code, but for what was taken.
  OffCpu OfWakeUp(uint32_t thread, int64_t begin_ns, int64_t end_ns, Woken* taken) const;

 private:
  // Between two moments at which on-CPU time was read.
  struct Stretch {
    int64_t begin_ns = 0, end_ns = 0;
    int64_t cpu_ns = 0;
    int64_t code_ns = 0;      // of it in code
    int64_t untraced_ns = 0;  // of it in nothing that was recorded
    uint32_t waits = 0;       // that it has a part of
    uint32_t bracket = model::kNone;
    bool was_preempted = false;
    bool are_faults_proved = false;
    OffCpu off;                        // of its code
    int64_t untraced_runqueue_ns = 0;  // of what is untraced
    uint32_t untraced_counter = model::kNone;
  };
  // Between two moments at which run-queue delay was read.
  struct Bracket {
    int64_t begin_ns, end_ns;
    int64_t delay_ns;         // in the end: what is in no code
    int64_t off_ns;           // of it not on a CPU
    int64_t open_ns = 0;      // of that in code which may have waited for a CPU, or slept
    int64_t untraced_ns = 0;  // of it in nothing that was recorded, while the thread was taken off its CPU
  };
  struct Thread {
    std::vector<Stretch> stretches;
    std::vector<Bracket> brackets;
    uint32_t delay_counter = model::kNone;
  };
  class Measurement;

  std::vector<Thread> threads_;
  static int64_t Grew(const std::vector<std::pair<int64_t, int64_t>>& values, int64_t begin_ns, int64_t end_ns);
  // From when on, how long since the beginning; in order.
  std::vector<std::pair<int64_t, int64_t>> throttled_, stolen_;
};

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_BLAME_WALK_HOST_H_
