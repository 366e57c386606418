// SPDX-License-Identifier: Apache-2.0
//
// Clocks of the operating system, those of CPU time among them.
#ifndef PITOT_LIB_SESSION_CPU_CLOCK_H_
#define PITOT_LIB_SESSION_CPU_CLOCK_H_

#include <time.h>

#include <cstdint>

namespace pitot::session {

inline int64_t ClockNs(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_CPU_CLOCK_H_
