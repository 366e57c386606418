// SPDX-License-Identifier: Apache-2.0
//
// A conditional hook: the host's own predicate decides for each finished request whether it is worth an incident.
#ifndef PITOT_TRIGGER_PREDICATE_H_
#define PITOT_TRIGGER_PREDICATE_H_

#include <memory>

#include "pitot/extend/trigger.h"

PITOT_NAMESPACE_BEGIN

struct PredicateTriggerOptions {
  // Returns true for a request that deserves an incident. Runs on the host's thread that finishes the request,
  // concurrently on many; the request pays for its time. Must not throw.
  bool (*predicate)(void* context, const RequestView& request) = nullptr;
  void* context = nullptr;
  const char* cause = "predicate";  // names incidents and their budget
  uint32_t cool_down_ms = 1000;     // as LatencyTriggerOptions
  uint32_t pre_window_ms = 0;       // 0: the recorder's
  uint32_t post_window_ms = 0;
};

PITOT_EXPORT std::unique_ptr<Trigger> MakePredicateTrigger(const PredicateTriggerOptions& options) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_TRIGGER_PREDICATE_H_
