// SPDX-License-Identifier: Apache-2.0
//
// Delays of a request on a thread, by the server's own clock and the kernel's counts of the thread. Verdicts are
// checked against them, so they are measured without the recorder.
#ifndef PITOT_TEST_SCOREBOARD_DELAYS_H_
#define PITOT_TEST_SCOREBOARD_DELAYS_H_

#include <cstdint>

#include "scoreboard/launches.h"

namespace scoreboard {

// Since the thread began.
struct ThreadUse {
  uint64_t at_ns = 0;         // CLOCK_MONOTONIC
  uint64_t cpu_ns = 0;        // on a CPU
  uint64_t runqueue_ns = 0;   // could run and got no CPU, by a quota included; 0 where the kernel does not say
  uint64_t major_faults = 0;  // waited for pages from a disk
  LaunchTime launches{};
};

// For the caller's thread. Cost: 2 us; a thread's first call opens a file of /proc and keeps it.
ThreadUse ThreadUseNow();

// One request's, in ns.
struct Delays {
  uint64_t cpu_waited_ns = 0;   // its thread could run and got no CPU
  uint64_t handed_over_ns = 0;  // it was ready, and the next thread was still asleep
  uint64_t lock_waited_ns = 0;
  uint64_t slept_ns = 0;  // in code without waits: neither on a CPU nor waiting for one
  uint64_t paged_ns = 0;  // the same, where pages came from a disk meanwhile
};

// The work of a thread between two readings.
struct Work {
  uint64_t cpu_ns = 0;
  LaunchTime launches{};
};
Work WorkBetween(const ThreadUse& before, const ThreadUse& after);

// For code without waits, between two readings of one thread.
Delays DelaysOfCode(const ThreadUse& before, const ThreadUse& after);

}  // namespace scoreboard

#endif  // PITOT_TEST_SCOREBOARD_DELAYS_H_
