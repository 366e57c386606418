// SPDX-License-Identifier: Apache-2.0
//
// A shared library with the CUDA runtime's names. Its launches only remember their arguments; cuDNN's function makes
// one launch.
#ifndef PITOT_TEST_SCOREBOARD_FAKE_CUDA_RUNTIME_H_
#define PITOT_TEST_SCOREBOARD_FAKE_CUDA_RUNTIME_H_

#include <cstddef>
#include <cstdint>

inline constexpr int kFakeLaunchStatus = 98;
inline constexpr uint64_t kFakeLaunchNs = 100'000;  // at least: on a CPU, of no kernel asleep

struct FakeLaunch {
  const void* kernel;
  unsigned grid_z, block_x;
  void** arguments;
  size_t shared_bytes;
  void* stream;
};
FakeLaunch LastFakeLaunch();

#endif  // PITOT_TEST_SCOREBOARD_FAKE_CUDA_RUNTIME_H_
