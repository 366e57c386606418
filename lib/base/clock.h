// SPDX-License-Identifier: Apache-2.0
//
// CLOCK_MONOTONIC, the clock of everything that is not an event.
#ifndef PITOT_LIB_BASE_CLOCK_H_
#define PITOT_LIB_BASE_CLOCK_H_

#include <stdint.h>
#include <time.h>

namespace pitot::base {

// Now, ns. Cost: about 20 ns.
inline uint64_t MonotonicNs() noexcept {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

// Where a clock comes through a constructor, so that tests bring their own.
using ClockFunction = uint64_t (*)() noexcept;

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_CLOCK_H_
