// SPDX-License-Identifier: Apache-2.0
//
// The counter collector over its environment: MakeCounterCollector passes the system's, tests pass their own.
#ifndef PITOT_LIB_COLLECT_COUNTERS_COLLECTOR_H_
#define PITOT_LIB_COLLECT_COUNTERS_COLLECTOR_H_

#include <memory>

#include "collect/counters/sampler.h"
#include "pitot/collect/counters.h"

namespace pitot::counters {

// Throws bad_alloc.
std::unique_ptr<Collector> MakeCollector(const CounterOptions& options, Environment environment);

}  // namespace pitot::counters

#endif  // PITOT_LIB_COLLECT_COUNTERS_COLLECTOR_H_
