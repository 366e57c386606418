// SPDX-License-Identifier: Apache-2.0
//
// When operators were recorded, and when they were not, as collectors said.
#ifndef PITOT_LIB_ANALYZE_OPERATOR_TIMES_H_
#define PITOT_LIB_ANALYZE_OPERATOR_TIMES_H_

#include <utility>
#include <vector>

#include "pitot/model/index.h"
#include "pitot/model/trace.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

struct OperatorTimes {
  explicit OperatorTimes(const model::Trace& trace) {
    std::vector<model::Interval> all, deep;
    // Dumps before 1.5, and traces of PyTorch's profiler, say it of GPUs and operators together.
    for (const model::DepthRow& row : trace.operator_depths.empty() ? trace.depths : trace.operator_depths) {
      all.push_back({row.begin_ns, row.end_ns});
      if (row.depth >= Depth::kOps) deep.push_back({row.begin_ns, row.end_ns});
    }
    told = model::Union(std::move(all)), recorded = model::Union(std::move(deep));
  }
  model::Intervals NotRecorded() const { return model::Difference(told, recorded); }

  model::Intervals told, recorded;
};

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_OPERATOR_TIMES_H_
