// SPDX-License-Identifier: Apache-2.0
//
// The counter collector over its environment: MakeCounterCollector passes the system's, tests pass their own.
#ifndef PITOT_LIB_COLLECT_COUNTERS_COLLECTOR_H_
#define PITOT_LIB_COLLECT_COUNTERS_COLLECTOR_H_

#include <functional>
#include <memory>

#include "collect/counters/sampler.h"
#include "pitot/collect/counters.h"

namespace pitot::counters {

// Environment::is_needed of a host: whether a request or batch is open, or one has begun since the call before. Throws
// bad_alloc.
std::function<bool()> NeededByHost();

// Ok, or which option is wrong: Start then does nothing, and returns the same.
Status Check(const CounterOptions& options) noexcept;

// Throws bad_alloc.
std::unique_ptr<Collector> MakeCollector(const CounterOptions& options, Environment environment);

}  // namespace pitot::counters

#endif  // PITOT_LIB_COLLECT_COUNTERS_COLLECTOR_H_
