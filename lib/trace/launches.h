// SPDX-License-Identifier: Apache-2.0
//
// The launches of a batch, counted without a record of each: by who sees the calls (collect/cuda_calls), for the
// batch's end.
#ifndef PITOT_LIB_TRACE_LAUNCHES_H_
#define PITOT_LIB_TRACE_LAUNCHES_H_

#include <cstdint>

namespace pitot::trace {

// Launches and enqueued copies of this thread in the batch that it began last.
struct Launches {
  uint64_t batch = 0;  // id
  uint64_t ticks = 0;  // in the calls
  uint32_t count = 0;
};
inline constinit thread_local Launches t_launches;

// In one word of an event: the number, at most 2^24 - 1, and the ticks, at most 2^40 - 1.
inline constexpr uint32_t kLaunchTickBits = 40;
inline uint64_t Packed(const Launches& launches) {
  constexpr uint64_t kMostTicks = (uint64_t{1} << kLaunchTickBits) - 1, kMostCount = (uint64_t{1} << 24) - 1;
  return (launches.count < kMostCount ? launches.count : kMostCount) << kLaunchTickBits |
         (launches.ticks < kMostTicks ? launches.ticks : kMostTicks);
}
inline Launches UnpackedLaunches(uint64_t word) {
  return {0, word & ((uint64_t{1} << kLaunchTickBits) - 1), static_cast<uint32_t>(word >> kLaunchTickBits)};
}

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_LAUNCHES_H_
