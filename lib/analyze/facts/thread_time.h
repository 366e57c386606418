// SPDX-License-Identifier: Apache-2.0
//
// The activity of one thread at each moment, by class.
#ifndef PITOT_LIB_ANALYZE_FACTS_THREAD_TIME_H_
#define PITOT_LIB_ANALYZE_FACTS_THREAD_TIME_H_

#include <cstdint>
#include <vector>

#include "pitot/model/classes.h"
#include "pitot/model/sweep.h"

namespace pitot::facts {

// For each host class, when the thread was in it and in none before it: in calls rather than in the operators around
// them. O(n log n) of its rows.
inline std::vector<model::Intervals> InnermostOf(const model::ThreadSets& threads, uint32_t thread) {
  const std::vector<model::Intervals> sets = threads.Of(thread);
  std::vector<const model::Intervals*> classes;
  model::Interval extent = {INT64_MAX, INT64_MIN};
  for (const model::Intervals& set : sets) {
    classes.push_back(&set);
    if (set.empty()) continue;
    extent = {std::min(extent.begin_ns, set.front().begin_ns), std::max(extent.end_ns, set.back().end_ns)};
  }
  return ExposedTimes(classes, extent);
}

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_THREAD_TIME_H_
