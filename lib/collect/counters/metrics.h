// SPDX-License-Identifier: Apache-2.0
//
// The sampled counters, and their names in CUPTI.
#ifndef PITOT_LIB_COLLECT_COUNTERS_METRICS_H_
#define PITOT_LIB_COLLECT_COUNTERS_METRICS_H_

#include <cstdint>
#include <vector>

#include "base/gpu_counters.h"

namespace pitot::counters {

// How a metric's value becomes the counter's.
enum class Scale : uint8_t {
  kNone,
  kPerSecond,  // a sum over the sample
  kMega,       // Hz to MHz
};

struct Metric {
  const char* name;  // CUPTI's
  base::GpuCounter counter;
  Scale scale;
};

inline constexpr uint32_t kMostMetrics = 11;

// Choices to try one after another, the richest first: a chip that does not know a metric refuses its whole choice, and
// all metrics must fit in one pass.
std::vector<std::vector<Metric>> Choices();

}  // namespace pitot::counters

#endif  // PITOT_LIB_COLLECT_COUNTERS_METRICS_H_
