// SPDX-License-Identifier: Apache-2.0
//
// Reads the scopes of a graph, whose nodes record events: the events keep the newest replay only. So they are read
// before the next launch by the thread that launches, or by the collector's thread once the launch's span is finished.
#ifndef PITOT_LIB_COLLECT_CUDA_EVENTS_REPLAYS_H_
#define PITOT_LIB_COLLECT_CUDA_EVENTS_REPLAYS_H_

#include <cstdint>
#include <vector>

#include "collect/cuda_events/divide.h"
#include "collect/cuda_events/driver.h"
#include "collect/cuda_events/pools.h"

namespace pitot::cuda_events {

// Reads the scopes known to be in the graph that was launched in the span of `whole`, into the parts of its pool. The
// GPU has finished the span, and the caller has the pair alone. Returns the driver's last result. Cost: three calls of
// the driver for each scope.
int ReadParts(const Driver& driver, Pair* whole) noexcept;

// Appends what was read of a span to `scopes`, sorted by their begin, as far as they have room.
void TakeParts(const Pair& whole, const Span& span, std::vector<Replayed>* scopes) noexcept;

// Whether the scope's newest replay, if it is over, ran in the span of `whole`, which took no longer than that; by its
// events.
bool RanIn(const Driver& driver, const Pair& scope, const Pair& whole, int64_t longest_ns) noexcept;

}  // namespace pitot::cuda_events

#endif  // PITOT_LIB_COLLECT_CUDA_EVENTS_REPLAYS_H_
