// SPDX-License-Identifier: Apache-2.0
//
// How the worker and the writer give way to the host's threads: by their share of the CPU, and the worker by its
// priority. Work on an incident that takes too long goes on at normal priority, and so does all work once the recorder
// stops.
#ifndef PITOT_LIB_SESSION_CPU_THROTTLE_H_
#define PITOT_LIB_SESSION_CPU_THROTTLE_H_

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/timer.h"
#include "session/incident_directory.h"
#include "session/lifetime.h"
#include "session/worker_priority.h"

namespace pitot::session {

class CpuThrottle final : public Throttle {
 public:
  // CPU time of the calling thread, ns.
  using CpuClock = int64_t (*)() noexcept;
  static int64_t ThreadCpuNs() noexcept { return base::ClockNs(CLOCK_THREAD_CPUTIME_ID); }

  // CPU time that may be saved up, and used at once before the share is enforced: some dumps, and some verdicts.
  static constexpr int64_t kBurstNs = 1'000'000'000;
  // What Proceed leaves of it for verdicts, where the work is less urgent.
  static constexpr int64_t kForVerdictsNs = 400'000'000;

  // `cpu_percent` of one CPU, above 0, is the thread's share. The pointers outlive this.
  CpuThrottle(uint32_t cpu_percent, const Lifetime* lifetime, base::Timer* timer, CpuClock cpu_clock = ThreadCpuNs)
      : share_(cpu_percent / 100.0), lifetime_(*lifetime), timer_(*timer), cpu_clock_(cpu_clock) {}

  // The thread's own. Called first, with the share saved up: the worker, with its priority; the writer.
  void Enter() noexcept;
  void EnterAtNormal() noexcept;
  // Returns once the thread may use the CPU again; at once if the recorder stops. False: the worker must give up.
  bool Proceed() noexcept override {
    return ProceedWith(0, [] { return false; });
  }
  // The same for work that leaves kForVerdictsNs, and that is to end once `is_over`, which is asked meanwhile.
  template <class IsOver> bool ProceedBehindVerdicts(const IsOver& is_over) noexcept {
    return ProceedWith(kForVerdictsNs, is_over);
  }
  // An incident's writing begins; its patience, too. Then its writing ends.
  void BeginWriting() noexcept { began_ns_.store(timer_.NowNs()); }
  void EndWriting() noexcept { began_ns_.store(0); }
  // Lets the worker's next work be idle again, unless the recorder stops. Threads: any.
  void Calm() noexcept PITOT_EXCLUDES(mutex_);
  int64_t CpuNs() const noexcept { return cpu_clock_(); }
  int64_t NowNs() noexcept { return timer_.NowNs(); }
  WorkerPriority* priority() noexcept { return &priority_; }

  // The writer's. It used CPU time at the expense of the worker's share.
  void Charge(int64_t cpu_ns) noexcept { charged_ns_.fetch_add(cpu_ns); }
  // For a block, somebody waits for the worker, which therefore works at normal priority, and may be idle afterwards.
  class Awaited {
   public:
    explicit Awaited(CpuThrottle* throttle) noexcept : throttle_(*throttle) {
      throttle_.is_awaited_.store(true);
      throttle_.priority_.Hurry();
    }
    ~Awaited() {
      throttle_.is_awaited_.store(false);
      throttle_.Calm();
    }
    Awaited(const Awaited&) = delete;
    Awaited& operator=(const Awaited&) = delete;

   private:
    CpuThrottle& throttle_;
  };

  // The watcher's. Lets an incident that was not written for a while go on at normal priority, within its share of the
  // CPU; and a worker that is awaited.
  void HurryIfLate() noexcept;

  // The host waits from now on: work is finished at normal priority, without regard to the share. Threads: any.
  void Finish() noexcept PITOT_EXCLUDES(mutex_);
  bool IsFinishing() noexcept PITOT_EXCLUDES(mutex_);

 private:
  // In one wait the thread gets this much, so that it does not wake up for less; it looks around at least this often.
  static constexpr int64_t kLeastNs = 5'000'000, kLongestWaitNs = 50'000'000;

  template <class IsOver> bool ProceedWith(int64_t left_ns, const IsOver& is_over) noexcept {
    double least_ns = static_cast<double>(left_ns);
    for (;;) {
      if (lifetime_.HasGivenUp() || is_over()) return false;
      const double saved_ns = Refill();
      if (saved_ns >= least_ns) return true;
      const Awake awake(&priority_);
      if (IsFinishing()) return !lifetime_.HasGivenUp();
      least_ns = static_cast<double>(left_ns + kLeastNs);
      const auto wait_ns = static_cast<int64_t>((least_ns - saved_ns) / share_) + 1;
      timer_.WaitUntil(timer_.NowNs() + (left_ns == 0 ? wait_ns : std::min(wait_ns, kLongestWaitNs)));
    }
  }
  // CPU time saved up by now, ns.
  double Refill() noexcept;

  const double share_;
  const Lifetime& lifetime_;
  base::Timer& timer_;
  const CpuClock cpu_clock_;
  WorkerPriority priority_;
  std::atomic<int64_t> began_ns_{0};  // when the worker began to write; 0: it is not writing
  std::atomic<int64_t> charged_ns_{0};
  std::atomic<bool> is_awaited_{false};

  base::Mutex mutex_;
  bool is_finishing_ PITOT_GUARDED_BY(mutex_) = false;

  // Used by the thread only.
  int64_t used_cpu_ns_ = 0;
  double tokens_ns_ = 0;  // of CPU time
  int64_t refilled_ns_ = 0;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_CPU_THROTTLE_H_
