// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <new>
#include <unordered_map>
#include <utility>

#include "analyze/blame/index_data.h"
#include "analyze/verdict/ordinary.h"
#include "pitot/analyze/learn.h"
#include "pitot/analyze/verdict.h"

namespace pitot::verdict {

using model::RequestRow;
using model::Trace;

uint64_t SpreadId(uint64_t id) {
  id = (id ^ id >> 33) * 0xff51afd7ed558ccd;
  id = (id ^ id >> 33) * 0xc4ceb9fe1a85ec53;
  return id ^ id >> 33;
}

namespace {

// When the first request that a trigger fired for began, or the first firing: from then on something needs an
// explanation.
int64_t FirstFired(const Trace& trace) {
  int64_t first_ns = trace.window_end_ns;
  std::unordered_map<uint64_t, int64_t> begins;
  for (const RequestRow& row : trace.requests) begins.emplace(row.id, row.begin_ns);
  for (const model::FiringRow& firing : trace.firings) {
    const auto found = begins.find(firing.request_id);
    first_ns = std::min(first_ns, found != begins.end() ? std::min(found->second, firing.at_ns) : firing.at_ns);
  }
  return first_ns;
}

// Since when the trace is whole: the oldest events are left out for room.
int64_t WholeFrom(const Trace& trace) {
  int64_t from_ns = trace.window_begin_ns;
  for (const model::LossRow& loss : trace.losses) {
    if (loss.reason == model::LossReason::kReserve) from_ns = std::max(from_ns, loss.end_ns);
  }
  return from_ns;
}

// Moments at which work came after the process had been idle.
std::vector<int64_t> FindRamps(const Trace& trace, int64_t idle_ns) {
  std::vector<int64_t> ramps;
  int64_t busy_until_ns = trace.window_begin_ns;
  for (const RequestRow& row : trace.requests) {  // by begin
    if (row.begin_known && row.begin_ns - busy_until_ns >= idle_ns) ramps.push_back(row.begin_ns);
    busy_until_ns = std::max(busy_until_ns, trace.RequestEnd(row));
  }
  return ramps;
}

}  // namespace

OrdinaryTime::OrdinaryTime(const Trace& trace, const LearnOptions& options)
    : options_(options),
      from_ns_(WholeFrom(trace)),
      until_ns_(FirstFired(trace)),
      most_ns_((until_ns_ - from_ns_) / 4),
      ramps_(FindRamps(trace, options.idle_ns)) {}

bool OrdinaryTime::IsInRamp(int64_t at_ns) const {
  const auto after = std::upper_bound(ramps_.begin(), ramps_.end(), at_ns);
  return after != ramps_.begin() && at_ns - *(after - 1) < options_.ramp_ns;
}

bool OrdinaryTime::Has(int64_t begin_ns, int64_t end_ns) const {
  if (end_ns - begin_ns > most_ns_ || end_ns - from_ns_ < most_ns_ || end_ns > until_ns_) return false;
  return end_ns > options_.ended_after_ns && begin_ns >= options_.began_after_ns && !IsInRamp(begin_ns);
}

}  // namespace pitot::verdict

PITOT_NAMESPACE_BEGIN
namespace analyze {

using model::RequestRow;
using model::Trace;

std::vector<uint32_t> FindOrdinary(const Trace& trace, const LearnOptions& options) {
  const verdict::OrdinaryTime time(trace, options);
  std::map<std::pair<model::StringId, uint32_t>, std::vector<std::pair<uint64_t, uint32_t>>> cells;
  for (uint32_t i = 0; i < trace.requests.size(); ++i) {
    const RequestRow& row = trace.requests[i];
    if (!row.begin_known || !row.end_known || row.outcome != Outcome::kOk || row.duration_ns <= 0) continue;
    if (!time.Has(row.begin_ns, row.begin_ns + row.duration_ns)) continue;
    cells[{row.route, row.size_bucket}].emplace_back(verdict::SpreadId(row.id), i);
  }
  std::vector<uint32_t> rows;
  for (auto& [key, cell] : cells) {
    std::sort(cell.begin(), cell.end());
    if (cell.size() > options.most_per_cell) cell.resize(options.most_per_cell);
    for (const auto& [spread, row] : cell) rows.push_back(row);
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

Status LearnRequest(const BlameIndex& index, uint32_t request, Baseline* baseline, Regimes* regimes) noexcept {
  RequestBlame blame;
  if (Status status = FindBlame(index, request, &blame); !status.ok() || !blame.is_reliable) return status;
  const Trace& trace = index.data()->index.trace;
  const RequestRow& row = trace.requests[request];
  const BaselineRow normal{blame.end_ns, blame.blame, WorkOf(index, blame)};
  const std::string_view route = trace.strings[row.route];
  Status status = baseline->Add(route, row.size_bucket, normal);
  if (status.ok() && regimes != nullptr) status = regimes->Add(route, row.size_bucket, normal);
  if (status.ok()) status = baseline->scopes().Add(index, blame);
  return status;
}

}  // namespace analyze
PITOT_NAMESPACE_END
