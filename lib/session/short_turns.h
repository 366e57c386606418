// SPDX-License-Identifier: Apache-2.0
//
// Short turns on the CPU. The kernel lets a thread with a short time slice run sooner after it wakes up, for the same
// share of the CPU. The watcher has little to do, and rings forget while it waits.
#ifndef PITOT_LIB_SESSION_SHORT_TURNS_H_
#define PITOT_LIB_SESSION_SHORT_TURNS_H_

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>

namespace pitot::session {

inline constexpr uint64_t kShortTurnNs = 100'000;  // the shortest that Linux grants

// As struct sched_attr of linux/sched/types.h, which older systems lack.
struct TurnAttributes {
  uint32_t size = sizeof(TurnAttributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime_ns = 0;  // of a normal thread: its time slice; 0 before Linux 6.12
  uint64_t deadline_ns = 0;
  uint64_t period_ns = 0;
};

// False if the kernel does not tell. `tid` 0: the calling thread.
inline bool ReadTurns(pid_t tid, TurnAttributes* turns) noexcept {
  return syscall(SYS_sched_getattr, tid, turns, sizeof *turns, 0) == 0;
}

// Asks for short turns for the calling thread. Nothing changes before Linux 6.12.
inline void AskForShortTurns() noexcept {
  TurnAttributes turns;
  if (!ReadTurns(0, &turns) || turns.policy != 0 || turns.runtime_ns <= kShortTurnNs) return;
  turns.size = sizeof turns;
  turns.runtime_ns = kShortTurnNs;
  syscall(SYS_sched_setattr, 0, &turns, 0);
}

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_SHORT_TURNS_H_
