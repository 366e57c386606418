// SPDX-License-Identifier: Apache-2.0
//
// Scopes that begin and end by calls. Each caller (the host through pitot/manual.h, each domain of NVTX) has its own
// stack on each thread. All these scopes lie on the thread's one stack of open scopes.
#ifndef PITOT_LIB_TRACE_MANUAL_H_
#define PITOT_LIB_TRACE_MANUAL_H_

#include <cstdint>

#include "trace/rings.h"

namespace pitot::trace {

inline constexpr uint8_t kHostsScopes = 0;
// Limit for open ranges of other callers on a thread: ranges that never end leave room for the host, and for each
// other. A range beyond the limit ends the oldest one of the owner with most.
inline constexpr uint32_t kMaxRanges = 32;

// Begins a scope with the site's arguments, a word each and at most kMaxOpenArgs; `owner` is below kMaxOwners. A scope
// without room, inside kMaxOpen scopes of the host, is counted in Stats::events_refused. Its end is then ignored (up to
// 255 per owner at a time). Threads: any. Cost: a scope named at run time.
void BeginScopeOf(uint8_t owner, const Site* site, const uint64_t* words) noexcept;
// Ends the newest scope that `owner` began on this thread. False if there is none.
bool EndScopeOf(uint8_t owner) noexcept;

// Records an event of the calling thread from `begin_ticks` to now (0: a moment), with the site's arguments.
void RecordEvent(const Site* site, uint64_t begin_ticks, const uint64_t* words) noexcept;

// Steps of tasks (pitot/interpreter.h): from FenceScopes to DropScopesOfStep, EndScopeOf ends no scope of the host that
// was open before. DropScopesOfStep removes the scopes and waits begun since and still open, and counts them as closed
// elsewhere.
void FenceScopes(ThreadRing* ring) noexcept;
void DropScopesOfStep(ThreadRing* ring) noexcept;

// The scope at `depth` ends. If only ranges of other callers are open above it, they end with it, recorded and counted;
// they may be left over after an exception. False if anything else is open above it.
bool CutRanges(ThreadRing* ring, uint32_t depth) noexcept;
// The number of ranges that ended in this way, or because there were more than kMaxRanges, since the process began.
uint64_t RangesCut() noexcept;

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_MANUAL_H_
