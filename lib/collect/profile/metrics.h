// SPDX-License-Identifier: Apache-2.0
//
// The measured metrics: their names in CUPTI, and the values of a kernel they fill.
#ifndef PITOT_LIB_COLLECT_PROFILE_METRICS_H_
#define PITOT_LIB_COLLECT_PROFILE_METRICS_H_

#include <optional>
#include <vector>

#include "pitot/collect/profile.h"

namespace pitot::profile {

struct Metric {
  const char* name;  // CUPTI's
  std::optional<double> KernelProfile::*value;
};

// Sets of metrics. The passes of one set belong together, so each set is as small as its passes allow: on an H100 they
// take 1, 2 and 8. A chip without one of the metrics is asked for the others.
std::vector<std::vector<Metric>> MetricSets(ProfileMetrics metrics);

}  // namespace pitot::profile

#endif  // PITOT_LIB_COLLECT_PROFILE_METRICS_H_
