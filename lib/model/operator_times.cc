// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include "model/losses.h"
#include "pitot/model/index.h"

PITOT_NAMESPACE_BEGIN
namespace model {
namespace {

int64_t PartNs(const Intervals& set, const Interval& of) { return TotalNs(Intersection(set, Union({of}))); }

Interval TimeOf(const Trace& trace, const BatchRow& batch) { return {batch.begin_ns, trace.BatchEnd(batch)}; }

bool RanOperators(const Trace& trace, const ThreadRow& thread) {
  for (uint32_t event = thread.first_event; event < thread.first_event + thread.event_count; ++event) {
    if (trace.sites[trace.events.site[event]].kind == SiteKind::kOperator) return true;
  }
  return false;
}

}  // namespace

OperatorTimes::OperatorTimes(const Trace& trace) : is_of_operators_(!trace.operator_depths.empty()) {
  std::vector<Interval> scopes, operators;
  for (const DepthRow& row : is_of_operators_ ? trace.operator_depths : trace.depths)
    (row.depth >= Depth::kOps ? operators : scopes).push_back({row.begin_ns, row.end_ns});
  const Intervals shallow = Union(std::move(scopes)), deep = Union(std::move(operators));
  // Where processes differ, the least counts. Whether a request's process has operators is then unknown.
  recorded_ = Difference(deep, shallow);
  std::vector<Interval> told = Difference(shallow, deep);
  told.insert(told.end(), recorded_.begin(), recorded_.end());
  told_ = Union(std::move(told));
  std::vector<std::vector<Interval>> lost(trace.threads.size());
  for (const LossRow& loss : trace.losses) {
    if (loss.thread != kNone && IsOfEvents(loss.reason)) lost[loss.thread].push_back({loss.begin_ns, loss.end_ns});
  }
  std::vector<Interval> lost_of_operators;
  for (uint32_t thread = 0; thread < trace.threads.size(); ++thread) {
    if (lost[thread].empty()) continue;
    if (RanOperators(trace, trace.threads[thread]))
      lost_of_operators.insert(lost_of_operators.end(), lost[thread].begin(), lost[thread].end());
    kept_.emplace(thread, Difference(recorded_, Union(std::move(lost[thread]))));
  }
  kept_of_all_ = Difference(recorded_, Union(std::move(lost_of_operators)));
}

OperatorCoverage OperatorTimes::Of(const Trace& trace, const RequestIndex& index, uint32_t request) const {
  OperatorCoverage coverage;
  if (!is_of_operators_) return coverage;
  const auto add = [&](const Interval& ran, const Intervals& kept) {
    coverage.is_known |= PartNs(told_, ran) != 0;
    coverage.covered_ns += PartNs(kept, ran);
    coverage.ran_ns += ran.end_ns - ran.begin_ns;
  };
  const auto kept_by = [&](uint32_t thread) -> const Intervals& {
    const auto kept = kept_.find(thread);
    return kept != kept_.end() ? kept->second : recorded_;
  };
  const auto count = [&](const BatchRow& batch) {
    const Interval ran = TimeOf(trace, batch);
    const int64_t ran_ns = ran.end_ns - ran.begin_ns;
    ++coverage.batches;
    coverage.recorded_batches += ran_ns > 0 && PartNs(kept_by(batch.thread), ran) >= ran_ns - ran_ns / 5;
  };
  if (request == kNone) {
    add({trace.window_begin_ns, trace.window_end_ns}, kept_of_all_);
    for (const BatchRow& batch : trace.batches) count(batch);
    return coverage;
  }
  for (const uint32_t row : index.Batches(request)) {
    const BatchRow& batch = trace.batches[row];
    add(TimeOf(trace, batch), kept_by(batch.thread)), count(batch);
  }
  const RequestRow& row = trace.requests[request];
  if (coverage.batches == 0) add({row.begin_ns, trace.RequestEnd(row)}, kept_by(row.begin_thread));
  return coverage;
}

}  // namespace model
PITOT_NAMESPACE_END
