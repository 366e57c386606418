// SPDX-License-Identifier: Apache-2.0
//
// Bytes of a mapped file can be lost while it is mapped: somebody truncates the file, a disk fails. The next access is
// then a SIGBUS. For guarded ranges the fault is taken here: private, empty memory comes in the place of the page, and
// the thread goes on. All other faults go to the handler that was there before.
//
// The handler comes with the first range and stays: others may have chained to it since.
#ifndef PITOT_LIB_TRACE_BUS_GUARD_H_
#define PITOT_LIB_TRACE_BUS_GUARD_H_

#include <cstdint>

namespace pitot::trace {

inline constexpr uint32_t kMostGuarded = 8192;

// Threads: any. False: there are too many ranges, or the system refuses the handler.
bool GuardRange(const void* begin, uint64_t bytes) noexcept;
// By its beginning. Unknown ones are left.
void UnguardRange(const void* begin) noexcept;
// In a child: its parent's ranges are not there.
void ForgetGuardedAfterFork() noexcept;
// Pages replaced so far.
uint64_t PagesLost() noexcept;

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_BUS_GUARD_H_
