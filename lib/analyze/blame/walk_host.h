// SPDX-License-Identifier: Apache-2.0
//
// How much of a thread's code was not on a CPU, and why: pitot::host's counters compared with the thread's recorded
// work (docs/reference/walk.md#code-that-did-not-run).
#ifndef PITOT_LIB_ANALYZE_BLAME_WALK_HOST_H_
#define PITOT_LIB_ANALYZE_BLAME_WALK_HOST_H_

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyze/blame/interpreter.h"
#include "analyze/blame/namespace.h"
#include "analyze/blame/walk_gpu.h"
#include "analyze/blame/walk_threads.h"
#include "pitot/analyze/why.h"

namespace pitot::blame {

// Whether the trace has such counters.
bool HasHostUse(const model::Trace& trace);

// The off-CPU time of a stretch of code; where in the code is unknown. Its counters prove it.
struct OffCpu {
  int64_t runqueue_ns = 0;  // could run and got no CPU
  int64_t pagefault_ns = 0;
  int64_t blocked_ns = 0;
  // An engine of the GPU was at work meanwhile, and nothing else is known of the wait; by GpuUse::Engine.
  int64_t gpu_ns[3] = {};
  uint32_t runqueue_counter = model::kNone, pagefault_counter = model::kNone, blocked_counter = model::kNone;
};

class HostUse {
 public:
  // O(n log n) in the samples and in the pieces of threads with samples. Keeps no reference to the indexes.
  HostUse(const model::Trace& trace, const Threads& threads, const GpuOps& gpu, const Interpreter& interpreter,
          const BlameOptions& options);

  // The time covered by the thread's counters; empty: none.
  model::Interval KnownOf(uint32_t thread) const;
  // Do its counters cover all of that time?
  bool IsKnown(uint32_t thread, int64_t begin_ns, int64_t end_ns) const {
    const model::Interval known = KnownOf(thread);
    return known.begin_ns <= begin_ns && end_ns <= known.end_ns;
  }
  // The off-CPU time of code, or of a call that does not wait, with nothing else in it. The parts add up to no more
  // than its length. O(log n), and the stretches.
  OffCpu OfCode(uint32_t thread, int64_t begin_ns, int64_t end_ns) const;
  // The wait for a CPU in time outside all that was recorded. The rest of such time is unexplained.
  OffCpu OfUntraced(uint32_t thread, int64_t begin_ns, int64_t end_ns) const;
  // The most time that the thread can have slept; INT64_MAX without counters. O(log n), and the stretches.
  int64_t MostSleptNs(uint32_t thread, int64_t begin_ns, int64_t end_ns) const;
  // The most time in which the thread can have waited for a CPU, outside of code: its run-queue delay between the
  // readings around it. 0 without counters. O(log n), and the brackets.
  int64_t MostDelayNs(uint32_t thread, int64_t begin_ns, int64_t end_ns) const;
  // Whether the time blamed on major faults is proved: by the number of faults, or by the growth of the machine's I/O
  // pressure. Otherwise it is only possible. O(log n), and the stretches.
  bool AreFaultsProved(uint32_t thread, int64_t begin_ns, int64_t end_ns) const;
  // How long the CPU quota throttled the thread's process between two moments; 0 if unknown. kNone: the process's of
  // all threads, or in a joined trace (model/parts.h) the one that was throttled longest.
  int64_t ThrottledNs(uint32_t thread, int64_t begin_ns, int64_t end_ns) const;
  // How much of the machine's CPUs the hypervisor took, up to a second before and after included; 0 if unknown. The
  // machine is the thread's, likewise.
  int64_t StolenNs(uint32_t thread, int64_t begin_ns, int64_t end_ns) const;
  // How much run-queue delay between two readings (by their place) was already blamed for late wake-ups.
  using Woken = std::unordered_map<size_t, int64_t>;
  // The late part of a wake-up: the thread's run-queue delay outside of code, without the part already taken.
  OffCpu OfWakeUp(uint32_t thread, int64_t begin_ns, int64_t end_ns, Woken* taken) const;
  // Likewise the run-queue delay in a recorded wait: as much as cannot have been in the thread's other time off the
  // CPU.
  OffCpu OfWait(uint32_t thread, int64_t begin_ns, int64_t end_ns, Woken* taken) const;

 private:
  template <class Most>
  OffCpu TakeDelays(uint32_t thread, int64_t begin_ns, int64_t end_ns, Woken* taken, const Most& most) const;
  // Between two readings of the on-CPU time.
  struct Stretch {
    int64_t begin_ns = 0, end_ns = 0;
    int64_t cpu_ns = 0;
    int64_t code_ns = 0;      // of it, in code
    int64_t untraced_ns = 0;  // of it, outside all that was recorded
    int64_t slept_ns = 0;     // at most
    uint32_t waits = 0;       // waits it has a part of
    uint32_t bracket = model::kNone;
    bool was_preempted = false;
    bool are_faults_proved = false;
    OffCpu off;                        // of its code
    int64_t untraced_runqueue_ns = 0;  // of its untraced time
    uint32_t untraced_counter = model::kNone;
  };
  // Between two readings of the run-queue delay.
  struct Bracket {
    int64_t begin_ns, end_ns;
    int64_t delay_ns;         // in the end: the part in no code
    int64_t off_ns;           // of it, not on a CPU
    int64_t room_ns = 0;      // of off_ns, in no delay counted in it
    int64_t open_ns = 0;      // of off_ns, in code which may have waited for a CPU, or slept
    int64_t untraced_ns = 0;  // of off_ns, outside all that was recorded, where the thread was taken off its CPU
  };
  struct Thread {
    std::vector<Stretch> stretches;
    std::vector<Bracket> brackets;
    uint32_t delay_counter = model::kNone;
  };
  class Measurement;

  std::vector<Thread> threads_;
  // From when on, and the sum since the beginning; in order.
  using Sums = std::vector<std::pair<int64_t, int64_t>>;
  // What a part of a joined trace, or the trace, says of its process and machine.
  struct Host {
    uint32_t part;
    Sums throttled, stolen;
  };
  static int64_t Grew(const Sums& values, int64_t begin_ns, int64_t end_ns);
  int64_t MostOf(Sums Host::*sums, uint32_t thread, int64_t begin_ns, int64_t end_ns) const;

  std::vector<Host> hosts_;
  std::vector<uint32_t> parts_;  // of threads
};

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_WALK_HOST_H_
