// SPDX-License-Identifier: Apache-2.0
//
// Calls of a device's API, recorded in the ring of the calling thread. The assembler later joins them with the device's
// work.
#ifndef PITOT_LIB_TRACE_CALLS_H_
#define PITOT_LIB_TRACE_CALLS_H_

#include <cstdint>

#include "pitot/trace.h"

namespace pitot::trace {

// Reads the clock for EndCall; 0 while no recorder runs. Cost: a clock read.
uint64_t BeginCall() noexcept;
// The collector that numbers the contexts and streams in Awaited.
inline constexpr char kAwaitedOf[] = "cupti";
// The target of a wait.
struct Awaited {
  uint32_t context = 0;  // 0: unknown
  uint32_t stream = 0;
};
inline constexpr uint32_t kAllStreams = 0xffffffff;  // all streams of the context
// Records a call of `api` that began at `begin_ticks` (0: records nothing), in the thread's context. Threads: any.
// Cost: a scope with one argument, or with two if the target of the wait is known.
void EndCall(Name api, uint32_t correlation, uint64_t begin_ticks, Awaited awaited = {}) noexcept;

// The path of open scopes on the calling thread, outermost first, "forward / layer 3". If a name has no room for all,
// the innermost ones are kept. Name{0} without open scopes or recorder. Cost: about 1 us.
Name OpenScopePath() noexcept;

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_CALLS_H_
