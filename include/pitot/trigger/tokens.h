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
  double gap_above_ms = 0;          // between two marks of Emit; 0: not watched
  // Fires above this quantile, 0.5 to 0.9999; 0: off. First tokens are compared with those of the same route and size
  // bucket, gaps with all of the route. Late ones are learned, too. One of these and the two above must be set.
  double first_token_or_above_quantile = 0;
  double gap_or_above_quantile = 0;
  // As of LatencyTriggerOptions, but counted in first tokens, or in gaps: counts halve every `memory`, and the quantile
  // decides nothing before that many, nor before 1 / (1 - quantile).
  uint32_t memory = 10000;
  uint32_t warm_up_marks = 200;
  uint32_t cool_down_ms = 1000;  // as LatencyTriggerOptions
  uint32_t pre_window_ms = 0;    // 0: the recorder's
  uint32_t post_window_ms = 0;
};

// Its incidents begin before the gap, not with the request: a stream may be old.
// Memory: for each quantile as of MakeLatencyTrigger, at most 1.2 MB.
PITOT_EXPORT std::unique_ptr<Trigger> MakeTokensTrigger(const TokensTriggerOptions& options) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_TRIGGER_TOKENS_H_
