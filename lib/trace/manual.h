// SPDX-License-Identifier: Apache-2.0
//
// Scopes that calls begin and end. Whoever makes the calls (the host through pitot/manual.h, each domain of NVTX) has a
// stack of its own on each thread; all of them lie on the thread's one stack of open scopes.
#ifndef PITOT_LIB_TRACE_MANUAL_H_
#define PITOT_LIB_TRACE_MANUAL_H_

#include <cstdint>

#include "trace/rings.h"

namespace pitot::trace {

inline constexpr uint8_t kHostsScopes = 0;
// How many of others may be open on a thread: those that are never ended leave the host's own room, and each other's.
// One that begins beyond has the oldest of the owner end that has most.
inline constexpr uint32_t kMaxRanges = 32;

// Begins a scope with the site's arguments, a word each and at most kMaxOpenArgs; `owner` below kMaxOwners. What finds
// no room, within kMaxOpen scopes of the host's, is counted in Stats::events_refused and, as it ends, forgotten (of an
// owner's 255 at a time). Cost: as a scope named at run time. Threads: any.
void BeginScopeOf(uint8_t owner, const Site* site, const uint64_t* words) noexcept;
// Ends the newest that `owner` began on this thread. False if there is none.
bool EndScopeOf(uint8_t owner) noexcept;

// Records an event of the calling thread from `begin_ticks` to now (0: a moment) with the site's arguments.
void RecordEvent(const Site* site, uint64_t begin_ticks, const uint64_t* words) noexcept;

// A scope that lies at `depth` ends. Where nothing is open above it but ranges of others than the host, which nobody
// ended as an exception was thrown, say: they end with it, recorded and counted. False if there is anything else.
bool CutRanges(ThreadRing* ring, uint32_t depth) noexcept;
// Ranges of others that ended so, or because there were more than kMaxRanges. Ever.
uint64_t RangesCut() noexcept;

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_MANUAL_H_
