// SPDX-License-Identifier: Apache-2.0
//
// Fires on output tokens that come late: the first one, or the gap between two.
#ifndef PITOT_TRIGGER_TOKENS_H_
#define PITOT_TRIGGER_TOKENS_H_

#include <memory>

#include "pitot/extend/trigger.h"

PITOT_NAMESPACE_BEGIN

struct TokensTriggerOptions {
  const char* route = nullptr;      // null: every route
  double first_token_above_ms = 0;  // time to first token; 0: not watched
  double gap_above_ms = 0;          // between two marks of Emit; 0: not watched. One of the two must be set.
  uint32_t cool_down_ms = 1000;     // as LatencyTriggerOptions
  uint32_t pre_window_ms = 0;       // 0: the recorder's
  uint32_t post_window_ms = 0;
};

PITOT_EXPORT std::unique_ptr<Trigger> MakeTokensTrigger(const TokensTriggerOptions& options) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_TRIGGER_TOKENS_H_
