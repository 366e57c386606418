// SPDX-License-Identifier: Apache-2.0
//
// The clocks of the fault log: CLOCK_MONOTONIC, and the CPU time of the caller's thread; in ns.
#ifndef PITOT_TEST_SCOREBOARD_CLOCKS_H_
#define PITOT_TEST_SCOREBOARD_CLOCKS_H_

#include <time.h>

#include <cstdint>

#include "server_common/monotonic.h"

namespace scoreboard {

using server_common::MonotonicNs;

inline uint64_t ThreadCpuNs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace scoreboard

#endif  // PITOT_TEST_SCOREBOARD_CLOCKS_H_
