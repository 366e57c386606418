// SPDX-License-Identifier: Apache-2.0
//
// The watchdog: fires while a request or a scope is still open, so that a hang leaves an incident although nothing
// ends.
#ifndef PITOT_TRIGGER_STALL_H_
#define PITOT_TRIGGER_STALL_H_

#include <memory>

#include "pitot/extend/trigger.h"

PITOT_NAMESPACE_BEGIN

struct StallTriggerOptions {
  const char* route = nullptr;  // requests of this route; null: every route
  double request_open_ms = 0;   // fires on a request open for longer; 0: not watched
  // Scopes of this name; null: every scope except waits (their name is "wait"), because idle threads wait.
  const char* scope = nullptr;
  double scope_open_ms = 0;       // fires on a scope open for longer; 0: not watched. One of the two must be set.
  uint32_t cool_down_ms = 10000;  // as LatencyTriggerOptions
  uint32_t pre_window_ms = 0;     // 0: the recorder's
  uint32_t post_window_ms = 0;
};

// Looks every 10 ms, so a stall is seen at most that much late. While no request or batch is open, a scope is first
// seen up to 0.4 s late, and its stall then by an eighth of its time. One request or one thread's scope fires once per
// stall. Others that are stalled when one begins an incident join it.
PITOT_EXPORT std::unique_ptr<Trigger> MakeStallTrigger(const StallTriggerOptions& options) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_TRIGGER_STALL_H_
