// SPDX-License-Identifier: Apache-2.0
//
// What launches cost: the measures of A10 that count each launch by itself.
#ifndef PITOT_LIB_ANALYZE_FACTS_LAUNCHES_H_
#define PITOT_LIB_ANALYZE_FACTS_LAUNCHES_H_

#include <cstdint>
#include <vector>

#include "analyze/facts/subjects.h"
#include "pitot/extend/analyzer.h"

namespace pitot::facts {

// A call and one operation it launched.
struct Launch {
  int64_t call_ns = 0, gpu_ns = 0, delay_ns = 0;
};

// Adds the counts of launches, by A10's thresholds, and their mean delay.
inline void AddLaunches(Analysis& analysis, const std::vector<Launch>& launches) {
  const double slow_call_ns = analysis.threshold("slow_call").value;
  const double slow_launch_ns = analysis.threshold("slow_launch").value;
  uint64_t short_ones = 0, slow_calls = 0, slow_launches = 0;
  int64_t delay_ns = 0;
  for (const Launch& launch : launches) {
    const auto call_ns = static_cast<double>(launch.call_ns);
    short_ones += call_ns <= slow_call_ns && launch.gpu_ns < launch.call_ns;
    slow_calls += call_ns > slow_call_ns;
    slow_launches += static_cast<double>(launch.delay_ns) > slow_launch_ns;
    Accumulate(&delay_ns, launch.delay_ns);
  }
  const auto add = [&](const char* name, uint64_t count) {
    AddNumber(analysis, name, kAll, static_cast<double>(count));
  };
  add("launches", launches.size());
  add("shorter_than_call", short_ones);
  add("slow_calls", slow_calls);
  add("slow_launches", slow_launches);
  if (launches.empty()) return;
  AddNumber(analysis, "mean_delay", kAll, static_cast<double>(delay_ns) / static_cast<double>(launches.size()), "ns");
}

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_LAUNCHES_H_
