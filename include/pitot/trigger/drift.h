// SPDX-License-Identifier: Apache-2.0
//
// Fires when a route has become slower as a whole: by its typical latency, not by a single request. Once for each such
// change.
#ifndef PITOT_TRIGGER_DRIFT_H_
#define PITOT_TRIGGER_DRIFT_H_

#include <memory>

#include "pitot/extend/trigger.h"

PITOT_NAMESPACE_BEGIN

struct DriftTriggerOptions {
  // The route to watch, not empty; null: every route, each with statistics of its own.
  const char* route = nullptr;
  // Fires when the median of recent requests exceeds that of the reference requests by this, percent, 5 to 1000. Below
  // 5 the histograms (buckets of at most 3 % width) cannot tell.
  double above_percent = 20;
  // How many requests of a route and size bucket are recent, 100 to 1,000,000; they count half as much after as many
  // more. reference_requests is how many are the reference, at least ten times that, at most 1,000,000,000. Nothing
  // fires until four times recent_requests were seen.
  uint32_t recent_requests = 500;
  uint32_t reference_requests = 20000;
  // After firing on a route, begins no further incident there for this time, ms.
  uint32_t cool_down_ms = 600'000;
  // Window of its incidents, ms; 0: the recorder's.
  uint32_t pre_window_ms = 0;
  uint32_t post_window_ms = 0;
};

// The request it fires on is a typical one of the new regime.
// Memory: 9.4 KB for each route and size bucket, at most 2.4 MB, on top of the recorder's budget.
PITOT_EXPORT std::unique_ptr<Trigger> MakeDriftTrigger(const DriftTriggerOptions& options) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_TRIGGER_DRIFT_H_
