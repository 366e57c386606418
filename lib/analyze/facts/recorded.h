// SPDX-License-Identifier: Apache-2.0
//
// What a trace can count: a value that was not measured is not 0.
#ifndef PITOT_LIB_ANALYZE_FACTS_RECORDED_H_
#define PITOT_LIB_ANALYZE_FACTS_RECORDED_H_

#include <algorithm>
#include <limits>

#include "analyze/facts/subjects.h"
#include "pitot/model/index.h"

namespace pitot::facts {

// The value of a measure that was not recorded.
inline constexpr double kNotRecorded = std::numeric_limits<double>::quiet_NaN();

// Whether a depth with kernels was recorded in some of the window, or there are kernels, copies or sets without one.
inline bool HasGpuWork(const model::Trace& trace) {
  const auto is_deep = [](const model::DepthRow& row) { return row.depth != Depth::kScopes; };
  if (std::any_of(trace.depths.begin(), trace.depths.end(), is_deep)) return true;
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    if (trace.gpu.kind[row] != model::GpuKind::kSpan) return true;
  }
  return false;
}
// Whether calls of a GPU's API were recorded, be it only those that wait.
inline bool HasCalls(const model::Trace& trace) { return trace.calls.size() != 0 || HasGpuWork(trace); }

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_RECORDED_H_
