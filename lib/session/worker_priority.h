// SPDX-License-Identifier: Apache-2.0
//
// How the worker gives way to the host's threads: SCHED_IDLE while it works, but never while it holds a lock that
// others may wait for, and no longer than patience lasts: on a CPU full of other work an idle thread may not run for
// minutes.
#ifndef PITOT_LIB_SESSION_WORKER_PRIORITY_H_
#define PITOT_LIB_SESSION_WORKER_PRIORITY_H_

#include <sys/types.h>

#include <atomic>

namespace pitot::session {

// Whether the system lets a thread of this process come back from SCHED_IDLE: CAP_SYS_NICE or RLIMIT_NICE does.
bool MayReturnFromIdle() noexcept;
// The nice value of a worker that may not.
inline constexpr int kWorkerNice = 10;

class WorkerPriority {
 public:
  // By the worker, first. Where it may not come back from SCHED_IDLE it gets kWorkerNice instead, for good.
  void Enter() noexcept;
  // By the worker.
  void BeIdle() noexcept;
  void BeNormal() noexcept;
  // By any thread: the worker is normal until the next Calm.
  void Hurry() noexcept;
  // By the worker: what it does next may be idle again.
  void Calm() noexcept { is_hurried_.store(false); }

 private:
  std::atomic<pid_t> tid_{0};
  std::atomic<bool> is_hurried_{false};
  bool is_idle_ = false;  // the worker's own
  bool can_return_ = false;
};

// Normal priority for a block.
class Awake {
 public:
  explicit Awake(WorkerPriority* priority) : priority_(priority) { priority_->BeNormal(); }
  ~Awake() { priority_->BeIdle(); }
  Awake(const Awake&) = delete;
  Awake& operator=(const Awake&) = delete;

 private:
  WorkerPriority* priority_;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_WORKER_PRIORITY_H_
