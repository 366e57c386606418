// SPDX-License-Identifier: Apache-2.0
//
// Means of a device's hardware counters (pitot::counters) over the times in which something ran there.
#ifndef PITOT_LIB_ANALYZE_FACTS_COUNTER_MEANS_H_
#define PITOT_LIB_ANALYZE_FACTS_COUNTER_MEANS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/gpu_counters.h"
#include "pitot/model/intervals.h"
#include "pitot/model/trace.h"

namespace pitot::facts {

struct CounterMean {
  double value;
  uint64_t samples;
};

class CounterMeans {
 public:
  // A sample counts if the work fills at least this share of it. The rest of it is other work or none.
  static constexpr double kLeastShare = 0.8;
  // A single sample may be chance.
  static constexpr uint64_t kLeastSamples = 2;

  // O(samples). Keeps no reference to the trace.
  CounterMeans(const model::Trace& trace, const std::vector<base::GpuCounter>& counters);
  bool is_empty() const { return samples_.empty(); }
  // The mean of a counter over the samples that `times` fill; nothing if there are fewer than two. `times` is sorted
  // and disjoint. O(times log samples + samples in times).
  std::optional<CounterMean> Of(uint32_t device, base::GpuCounter counter, const model::Intervals& times) const;

 private:
  struct Sample {
    model::Interval when;
    double value;
  };
  std::map<std::pair<uint32_t, base::GpuCounter>, std::vector<Sample>> samples_;  // in order
};

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_COUNTER_MEANS_H_
