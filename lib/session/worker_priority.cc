// SPDX-License-Identifier: Apache-2.0
#include "session/worker_priority.h"

#include <linux/capability.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace pitot::session {
namespace {

void SetPolicy(pid_t tid, int policy) {
  const sched_param param{};
  sched_setscheduler(tid, policy, &param);
}

}  // namespace

bool MayReturnFromIdle() noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_NICE, &limit) == 0 && limit.rlim_cur >= 20) return true;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  return syscall(SYS_capget, &header, data) == 0 && (data[0].effective >> CAP_SYS_NICE & 1) != 0;
}

void WorkerPriority::Enter() noexcept {
  tid_.store(static_cast<pid_t>(syscall(SYS_gettid)));
  can_return_ = MayReturnFromIdle();
  // Affects this thread only.
  if (!can_return_ && getpriority(PRIO_PROCESS, 0) < kWorkerNice) setpriority(PRIO_PROCESS, 0, kWorkerNice);
}

void WorkerPriority::BeIdle() noexcept {
  if (!can_return_ || is_hurried_.load()) return;
  is_idle_ = true;
  SetPolicy(0, SCHED_IDLE);
}

void WorkerPriority::BeNormal() noexcept {
  if (!is_idle_) return;
  is_idle_ = false;
  SetPolicy(0, SCHED_OTHER);
}

void WorkerPriority::Hurry() noexcept {
  is_hurried_.store(true);
  // The worker may be in the middle of BeIdle: the caller hurries it again.
  if (const pid_t tid = tid_.load(); tid != 0) SetPolicy(tid, SCHED_OTHER);
}

}  // namespace pitot::session
