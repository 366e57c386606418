// SPDX-License-Identifier: Apache-2.0
//
// How the worker gives way to the host's threads: SCHED_IDLE while it works, except while it holds a lock that others
// may wait for. Patience has a limit, because an idle thread may not run for minutes on a CPU full of other work.
#ifndef PITOT_LIB_SESSION_WORKER_PRIORITY_H_
#define PITOT_LIB_SESSION_WORKER_PRIORITY_H_

#include <sys/types.h>

#include <atomic>

namespace pitot::session {

// Whether the system lets a thread of this process come back from SCHED_IDLE: CAP_SYS_NICE or RLIMIT_NICE does.
bool MayReturnFromIdle() noexcept;
// The nice value of a worker that may not come back.
inline constexpr int kWorkerNice = 10;

class WorkerPriority {
 public:
  // Called first, by the worker. If it may not come back from SCHED_IDLE, it gets kWorkerNice instead, for its whole
  // life.
  void Enter() noexcept;
  // Called by the worker.
  void BeIdle() noexcept;
  void BeNormal() noexcept;
  // Makes the worker normal until the next Calm. Called by any thread.
  void Hurry() noexcept;
  // Lets the worker's next work be idle again. Called by any thread.
  void Calm() noexcept { is_hurried_.store(false); }

 private:
  std::atomic<pid_t> tid_{0};
  std::atomic<bool> is_hurried_{false};
  bool is_idle_ = false;  // used by the worker only
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
