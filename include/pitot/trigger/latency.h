// SPDX-License-Identifier: Apache-2.0
//
// Fires on a request that took longer than a fixed time, or than a quantile of similar requests.
#ifndef PITOT_TRIGGER_LATENCY_H_
#define PITOT_TRIGGER_LATENCY_H_

#include <memory>

#include "pitot/extend/trigger.h"

PITOT_NAMESPACE_BEGIN

struct LatencyTriggerOptions {
  // The route to watch, not empty; null: every route, each with statistics of its own.
  const char* route = nullptr;
  // Fires above this latency, ms; 0: no fixed threshold. One of above_ms and or_above_quantile must be set.
  double above_ms = 0;
  // Fires above this quantile of finished ok requests of the same route and size bucket, 0.5 to 0.9999; 0: off. The
  // quantile is kept in a histogram with buckets of at most 3 % width. It forgets: counts halve every `memory` requests
  // (64 to 1,000,000,000).
  double or_above_quantile = 0;
  uint32_t memory = 10000;
  // The quantile decides nothing until this many requests of a route and size bucket have finished, and at least 1 / (1
  // - quantile): with fewer it would be their maximum.
  uint32_t warm_up_requests = 200;
  // Fires only when `k` of the last `n` finished requests of the route were above, 1 <= k <= n <= 64.
  uint32_t k = 1;
  uint32_t n = 1;
  // After firing on a route, begins no further incident there for this time, ms, unless a request is twice as slow.
  // Slow requests while one is pending join it.
  uint32_t cool_down_ms = 1000;
  // Window of its incidents, ms; 0: the recorder's.
  uint32_t pre_window_ms = 0;
  uint32_t post_window_ms = 0;
};

// Memory: 4.7 KB for each route and size bucket with a watched quantile, at most 1.2 MB, on top of the recorder's
//   budget.
PITOT_EXPORT std::unique_ptr<Trigger> MakeLatencyTrigger(const LatencyTriggerOptions& options) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_TRIGGER_LATENCY_H_
