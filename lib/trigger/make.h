// SPDX-License-Identifier: Apache-2.0
//
// The built-in triggers with the clock of their cool-downs; the public factories pass CLOCK_MONOTONIC.
#ifndef PITOT_LIB_TRIGGER_MAKE_H_
#define PITOT_LIB_TRIGGER_MAKE_H_

#include <memory>

#include "base/clock.h"
#include "pitot/trigger/drift.h"
#include "pitot/trigger/failure.h"
#include "pitot/trigger/latency.h"
#include "pitot/trigger/predicate.h"
#include "pitot/trigger/stall.h"
#include "pitot/trigger/tokens.h"

namespace pitot::trigger {

std::unique_ptr<Trigger> MakeLatency(const LatencyTriggerOptions& options, base::ClockFunction clock) noexcept;
std::unique_ptr<Trigger> MakeDrift(const DriftTriggerOptions& options, base::ClockFunction clock) noexcept;
std::unique_ptr<Trigger> MakeFailure(const FailureTriggerOptions& options, base::ClockFunction clock) noexcept;
std::unique_ptr<Trigger> MakeTokens(const TokensTriggerOptions& options, base::ClockFunction clock) noexcept;
std::unique_ptr<Trigger> MakeStall(const StallTriggerOptions& options, base::ClockFunction clock) noexcept;
std::unique_ptr<Trigger> MakePredicate(const PredicateTriggerOptions& options, base::ClockFunction clock) noexcept;

}  // namespace pitot::trigger

#endif  // PITOT_LIB_TRIGGER_MAKE_H_
