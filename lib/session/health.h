// SPDX-License-Identifier: Apache-2.0
//
// Judges signs of progress: signs in, state out. The recorder asks it about its own process, `pitot health` and
// `pitot watch` about others.
#ifndef PITOT_LIB_SESSION_HEALTH_H_
#define PITOT_LIB_SESSION_HEALTH_H_

#include <cstdint>

#include "pitot/health.h"
#include "snapshot/box_reader.h"
#include "snapshot/signs.h"
#include "snapshot/texts.h"

namespace pitot::session {

struct HealthLimits {
  double ticks_per_ns = 1;
  uint64_t stalled_after_ns = 10'000'000'000;  // at most: sooner on routes with short requests
  // Its own watcher looks once a second or more often, and may wait for a CPU.
  uint64_t silent_after_ns = 5'000'000'000;
};

// Throws bad_alloc.
//
// A request stands still if it has had no sign of progress for `stalled_after_ns`. It is sooner if enough of its route
// ended well: after four times what the longest of them took, 1.5 s at least. But one request may just be long: two of
// the route must be without a sign for so long, and none of their threads may use a CPU. If another of its route has
// had one since, by half of that time or more, the process is slow; otherwise it is stalled. What requests do right
// after they arrive is no sign for others: a stuck server still accepts. So another one's sign counts if it ended well,
// or if it was open for half of that time before the sign.
//
// A route fails if requests of it failed for `stalled_after_ns` until now, and none had a sign that counts for others.
// Then the process is stalled, too.
pitot::Health JudgeHealth(const snapshot::Signs& signs, const HealthLimits& limits, const snapshot::Texts& texts);

// The health of a living process, by its black box.
struct BoxHealth {
  pitot::Health health;
  uint64_t life_ticks = 0;  // of its last sign of life
  int64_t silent_ns = 0;    // since then
};
// `limits` need no ticks. `pid` is its number here; 0: it is not seen from here. Throws bad_alloc.
BoxHealth HealthIn(snapshot::BoxReader* box, HealthLimits limits, int64_t pid);

// If requests are without a sign for 1.5 s: notes which have a thread of process `pid` that uses a CPU.
// Takes 10 ms then. Throws bad_alloc.
void NoteCpu(int64_t pid, const HealthLimits& limits, snapshot::Signs* signs);

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_HEALTH_H_
