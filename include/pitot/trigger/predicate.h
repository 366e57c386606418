// SPDX-License-Identifier: Apache-2.0
//
// The conditional hook: the host's own predicate on each finished request decides whether it is worth an incident.
#ifndef PITOT_TRIGGER_PREDICATE_H_
#define PITOT_TRIGGER_PREDICATE_H_

#include <memory>

#include "pitot/extend/trigger.h"

PITOT_NAMESPACE_BEGIN

struct PredicateTriggerOptions {
  // Returns true for a request that deserves an incident. On the host's thread that finishes the request, concurrently
  // from many; what it costs, the request pays. Must not throw.
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
