// SPDX-License-Identifier: Apache-2.0
//
// How long a thread was in calls that launch kernels, by the server's own clocks: it stands between LibTorch and the
// CUDA runtime and cuDNN's convolutions, and so owes nothing to the recorder. What other libraries launch (cuBLAS) is
// not in it. Cost: two readings of each clock a launch.
//
// The program that links it must export its symbols (ENABLE_EXPORTS).
#ifndef PITOT_TEST_SCOREBOARD_LAUNCHES_H_
#define PITOT_TEST_SCOREBOARD_LAUNCHES_H_

#include <cstdint>

namespace scoreboard {

struct LaunchTime {
  uint64_t ns = 0;
  uint64_t cpu_ns = 0;  // of it on a CPU: a driver may sleep
};

// Of the caller's thread, since it began.
LaunchTime Launched();

}  // namespace scoreboard

#endif  // PITOT_TEST_SCOREBOARD_LAUNCHES_H_
