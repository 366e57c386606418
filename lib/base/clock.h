// SPDX-License-Identifier: Apache-2.0
//
// Clocks of the operating system: CLOCK_MONOTONIC, used for everything except events, and those of CPU time.
#ifndef PITOT_LIB_BASE_CLOCK_H_
#define PITOT_LIB_BASE_CLOCK_H_

#include <stdint.h>
#include <time.h>

namespace pitot::base {

// Reads `clock`, ns. Cost: tens of ns; a system call for CPU time.
inline int64_t ClockNs(clockid_t clock) noexcept {
  timespec now = {};
  clock_gettime(clock, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

inline uint64_t MonotonicNs() noexcept { return static_cast<uint64_t>(ClockNs(CLOCK_MONOTONIC)); }

// For classes that take their clock in the constructor, so that tests can replace it.
using ClockFunction = uint64_t (*)() noexcept;

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_CLOCK_H_
