// SPDX-License-Identifier: Apache-2.0
//
// The time of a thread in calls to launch kernels, by the server's own clocks, without the recorder. It is measured
// between LibTorch on one side, the CUDA runtime and cuDNN's convolutions on the other. Launches by other libraries
// (cuBLAS) are not in it. Cost: two readings of each clock a launch.
//
// A program must export its symbols (ENABLE_EXPORTS).
#ifndef PITOT_TEST_SCOREBOARD_LAUNCHES_H_
#define PITOT_TEST_SCOREBOARD_LAUNCHES_H_

#include <cstdint>

namespace scoreboard {

struct LaunchTime {
  uint64_t ns = 0;
  uint64_t cpu_ns = 0;  // of it on a CPU: a driver may sleep
};

// For the caller's thread, since it began.
LaunchTime Launched();

}  // namespace scoreboard

#endif  // PITOT_TEST_SCOREBOARD_LAUNCHES_H_
