// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include "pitot/model/index.h"

PITOT_NAMESPACE_BEGIN
namespace model {
namespace {

int64_t PartNs(const Intervals& set, const Interval& of) { return TotalNs(Intersection(set, Union({of}))); }

Interval TimeOf(const Trace& trace, const BatchRow& batch) {
  return {batch.begin_ns, batch.duration_ns == kOpen ? trace.window_end_ns : batch.begin_ns + batch.duration_ns};
}

}  // namespace

OperatorTimes::OperatorTimes(const Trace& trace) : is_of_operators_(!trace.operator_depths.empty()) {
  std::vector<Interval> all, deep;
  for (const DepthRow& row : is_of_operators_ ? trace.operator_depths : trace.depths) {
    all.push_back({row.begin_ns, row.end_ns});
    if (row.depth >= Depth::kOps) deep.push_back({row.begin_ns, row.end_ns});
  }
  told_ = Union(std::move(all)), recorded_ = Union(std::move(deep));
}

OperatorCoverage OperatorTimes::Of(const Trace& trace, const RequestIndex& index, uint32_t request) const {
  OperatorCoverage coverage;
  if (!is_of_operators_) return coverage;
  const auto add = [&](const Interval& ran) {
    coverage.is_known |= PartNs(told_, ran) != 0;
    coverage.covered_ns += PartNs(recorded_, ran);
    coverage.ran_ns += ran.end_ns - ran.begin_ns;
  };
  const auto count = [&](uint32_t batch) {
    const Interval ran = TimeOf(trace, trace.batches[batch]);
    const int64_t ran_ns = ran.end_ns - ran.begin_ns;
    ++coverage.batches;
    coverage.recorded_batches += ran_ns > 0 && PartNs(recorded_, ran) >= ran_ns - ran_ns / 5;
  };
  if (request == kNone) {
    add({trace.window_begin_ns, trace.window_end_ns});
    for (uint32_t batch = 0; batch < trace.batches.size(); ++batch) count(batch);
    return coverage;
  }
  for (const uint32_t batch : index.Batches(request)) add(TimeOf(trace, trace.batches[batch])), count(batch);
  if (coverage.batches == 0) add({trace.requests[request].begin_ns, trace.RequestEnd(trace.requests[request])});
  return coverage;
}

}  // namespace model
PITOT_NAMESPACE_END
