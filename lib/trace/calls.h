// SPDX-License-Identifier: Apache-2.0
//
// Calls of a device's API in the ring of the thread that makes them: what ran on the device is joined to them later.
#ifndef PITOT_LIB_TRACE_CALLS_H_
#define PITOT_LIB_TRACE_CALLS_H_

#include <cstdint>

#include "pitot/trace.h"

namespace pitot::trace {

// The clock of BeginCall and EndCall; 0 while no recorder runs. Cost: a clock read.
uint64_t BeginCall() noexcept;
// The name of the collector whose numbers of contexts and streams those of Awaited are.
inline constexpr char kAwaitedOf[] = "cupti";
// What a call waited for.
struct Awaited {
  uint32_t context = 0;  // 0: not known
  uint32_t stream = 0;
};
inline constexpr uint32_t kAllStreams = 0xffffffff;  // of the context
// Records a call of `api` that began at `begin_ticks` (nothing if that is 0) in what its thread works for. Cost: as a
// scope with one argument, or two where it is known what it waited for. Threads: any.
void EndCall(Name api, uint32_t correlation, uint64_t begin_ticks, Awaited awaited = {}) noexcept;

// The scopes that are open on the calling thread, outermost first, "forward / layer 3"; of many the innermost, as many
// as a name has room for. Name{0} where there are none, or no recorder runs. Cost: about 1 us.
Name OpenScopePath() noexcept;

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_CALLS_H_
