// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <new>
#include <unordered_map>
#include <utility>

#include "analyze/blame/index_data.h"
#include "pitot/analyze/learn.h"
#include "pitot/analyze/verdict.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {
namespace {

using model::RequestRow;
using model::Trace;

// Spreads ids over all of 64 bits, because servers count them up (the finalizer of MurmurHash3).
uint64_t Spread(uint64_t id) {
  id = (id ^ id >> 33) * 0xff51afd7ed558ccd;
  id = (id ^ id >> 33) * 0xc4ceb9fe1a85ec53;
  return id ^ id >> 33;
}

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

std::vector<uint32_t> FindOrdinary(const Trace& trace, const LearnOptions& options) {
  const int64_t from_ns = WholeFrom(trace), until_ns = FirstFired(trace);
  const int64_t most_ns = (until_ns - from_ns) / 4;
  const std::vector<int64_t> ramps = FindRamps(trace, options.idle_ns);
  const auto is_in_ramp = [&](int64_t at_ns) {
    const auto after = std::upper_bound(ramps.begin(), ramps.end(), at_ns);
    return after != ramps.begin() && at_ns - *(after - 1) < options.ramp_ns;
  };
  std::map<std::pair<model::StringId, uint32_t>, std::vector<std::pair<uint64_t, uint32_t>>> cells;
  for (uint32_t i = 0; i < trace.requests.size(); ++i) {
    const RequestRow& row = trace.requests[i];
    if (!row.begin_known || !row.end_known || row.outcome != Outcome::kOk || row.duration_ns <= 0) continue;
    const int64_t end_ns = row.begin_ns + row.duration_ns;
    if (row.duration_ns > most_ns || end_ns - from_ns < most_ns || end_ns > until_ns) continue;
    if (end_ns <= options.ended_after_ns || row.begin_ns < options.began_after_ns || is_in_ramp(row.begin_ns)) continue;
    cells[{row.route, row.size_bucket}].emplace_back(Spread(row.id), i);
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
