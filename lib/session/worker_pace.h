// SPDX-License-Identifier: Apache-2.0
//
// How the worker gives way to the host's threads: by its share of the CPU and by its priority. An incident that has
// waited for too long goes on at normal priority, and so does all work once the recorder stops.
#ifndef PITOT_LIB_SESSION_WORKER_PACE_H_
#define PITOT_LIB_SESSION_WORKER_PACE_H_

#include <time.h>

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/timer.h"
#include "session/incident_directory.h"
#include "session/lifetime.h"
#include "session/worker_priority.h"

namespace pitot::session {

class WorkerPace final : public Throttle {
 public:
  // CPU time of the calling thread, ns.
  using CpuClock = int64_t (*)() noexcept;
  static int64_t ThreadCpuNs() noexcept { return base::ClockNs(CLOCK_THREAD_CPUTIME_ID); }

  // `cpu_percent` of one CPU, above 0, is the worker's share. The pointers outlive this.
  WorkerPace(uint32_t cpu_percent, const Lifetime* lifetime, base::Timer* timer, CpuClock cpu_clock = ThreadCpuNs)
      : share_(cpu_percent / 100.0), lifetime_(*lifetime), timer_(*timer), cpu_clock_(cpu_clock) {}

  // The worker's. Called first.
  void Enter() noexcept;
  // Returns once the worker may use the CPU again. It saves up its share, at most 100 ms. Once the recorder stops, it
  // does not wait. False: the worker must give up.
  bool Proceed() noexcept override;
  // An incident's writing begins; its patience, too. Then its writing ends.
  void BeginWriting() noexcept { handed_over_ns_.store(timer_.NowNs()); }
  void EndWriting() noexcept { handed_over_ns_.store(0); }
  // Lets the worker's next work be idle again, unless the recorder stops.
  void Calm() noexcept PITOT_EXCLUDES(mutex_);
  int64_t CpuNs() const noexcept { return cpu_clock_(); }
  int64_t NowNs() noexcept { return timer_.NowNs(); }
  WorkerPriority* priority() noexcept { return &priority_; }

  // The watcher's. An incident was handed over: the worker may be busy with something else, at idle priority.
  void NoteHandedOver() noexcept;
  // Lets an incident that was not written for a while go on at normal priority, within its share of the CPU.
  void HurryIfLate() noexcept;

  // The host waits from now on: work is finished at normal priority, without regard to the share. Threads: any.
  void Finish() noexcept PITOT_EXCLUDES(mutex_);
  bool IsFinishing() noexcept PITOT_EXCLUDES(mutex_);

 private:
  const double share_;
  const Lifetime& lifetime_;
  base::Timer& timer_;
  const CpuClock cpu_clock_;
  WorkerPriority priority_;
  std::atomic<int64_t> handed_over_ns_{0};  // when the worker began to write, or should have; 0: it is not writing

  base::Mutex mutex_;
  bool is_finishing_ PITOT_GUARDED_BY(mutex_) = false;

  // Used by the worker only.
  int64_t used_cpu_ns_ = 0;
  double tokens_ns_ = 0;  // of CPU time
  int64_t refilled_ns_ = 0;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_WORKER_PACE_H_
