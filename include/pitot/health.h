// SPDX-License-Identifier: Apache-2.0
//
// Health: whether the process's requests make progress. An open port does not tell: a server whose GPU hangs still
// answers its probe.
#ifndef PITOT_HEALTH_H_
#define PITOT_HEALTH_H_

#include <stdint.h>

#include "pitot/export.h"

PITOT_NAMESPACE_BEGIN

// The numbers never change.
enum class HealthState : uint32_t {
  kUnknown = 0,      // no recorder runs
  kIdle = 1,         // no request and no batch is open, and no route fails
  kProgressing = 2,  // all open requests make progress
  kSlow = 3,         // most open requests are late; or one makes no progress, while others of its route do
  kStalled = 4,      // a request makes no progress, nor does any other of its route; or a batch; or all of a route fail
};

// "unknown", "idle", "progressing", "slow" or "stalled".
PITOT_EXPORT const char* HealthStateName(HealthState state) noexcept;

// A plain copy.
struct Health {
  HealthState state = HealthState::kUnknown;
  uint32_t requests_open = 0;
  // The other open requests of the stalled one's route: they wait behind it.
  uint32_t requests_waiting = 0;
  // The open request without progress for the longest time; 0: there is none, or a batch or a route stalls.
  uint64_t request = 0;
  uint64_t open_ms = 0;                          // since that request began
  uint64_t quiet_ms = 0;                         // since its last progress, the batch's or the route's
  char route[128] = {};                          // of that request, or the one that fails; cut
  char stage[128] = {};                          // its newest, cut; "": it has none
  char text[384] = "unknown: no recorder runs";  // all of this in words
};

PITOT_NAMESPACE_END

#endif  // PITOT_HEALTH_H_
