// SPDX-License-Identifier: Apache-2.0
//
// Fires on a request that failed or timed out.
#ifndef PITOT_TRIGGER_FAILURE_H_
#define PITOT_TRIGGER_FAILURE_H_

#include <memory>

#include "pitot/extend/trigger.h"

PITOT_NAMESPACE_BEGIN

struct FailureTriggerOptions {
  const char* route = nullptr;  // null: every route
  // Outcomes that count.
  bool on_failed = true;
  bool on_timed_out = true;
  bool on_abandoned = false;
  uint32_t cool_down_ms = 1000;  // as LatencyTriggerOptions
  uint32_t pre_window_ms = 0;    // 0: the recorder's
  uint32_t post_window_ms = 0;
};

PITOT_EXPORT std::unique_ptr<Trigger> MakeFailureTrigger(const FailureTriggerOptions& options) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_TRIGGER_FAILURE_H_
