// SPDX-License-Identifier: Apache-2.0
//
// CLOCK_MONOTONIC in ns, as the load generator's results have it.
#ifndef SAMPLES_SERVER_COMMON_MONOTONIC_H_
#define SAMPLES_SERVER_COMMON_MONOTONIC_H_

#include <time.h>

#include <cstdint>

namespace server_common {

inline uint64_t MonotonicNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace server_common

#endif  // SAMPLES_SERVER_COMMON_MONOTONIC_H_
