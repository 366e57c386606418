// SPDX-License-Identifier: Apache-2.0
//
// CLOCK_MONOTONIC in ns: the clock of the fault log and of the load generator's results; and how long the caller's
// thread has been on a CPU.
#ifndef SAMPLES_SERVER_COMMON_MONOTONIC_H_
#define SAMPLES_SERVER_COMMON_MONOTONIC_H_

#include <time.h>

#include <cstdint>

namespace server_common {

inline uint64_t ClockNs(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}
inline uint64_t MonotonicNs() { return ClockNs(CLOCK_MONOTONIC); }
inline uint64_t ThreadCpuNs() { return ClockNs(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace server_common

#endif  // SAMPLES_SERVER_COMMON_MONOTONIC_H_
