// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/walks.h"

#include <algorithm>
#include <unordered_set>

#include "analyze/blame/index_data.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

std::vector<uint32_t> WholeRequests(const model::Trace& trace) {
  std::unordered_set<uint64_t> ids;
  for (const model::RequestRow& request : trace.requests) ids.insert(request.id);
  std::vector<uint32_t> rows;
  for (uint32_t row = 0; row < trace.requests.size(); ++row) {
    const model::RequestRow& request = trace.requests[row];
    const bool is_part = request.parent_id != 0 && ids.count(request.parent_id) != 0;
    if (request.begin_known && request.end_known && request.duration_ns > 0 && !is_part) rows.push_back(row);
  }
  return rows;
}

Walks FindWalks(const BlameIndex& index, bool (*is_over)(void* context), void* is_over_context) {
  Walks walks;
  const std::vector<uint32_t> rows = WholeRequests(index.data()->index.trace);
  walks.whole = rows.size();
  const size_t wanted = std::min<size_t>(rows.size(), Walks::kMost);
  for (size_t i = 0; i < wanted; ++i) {
    if (is_over != nullptr && is_over(is_over_context)) break;
    RequestBlame blame;
    if (!FindBlame(index, rows[i * rows.size() / wanted], &blame).ok()) continue;
    blame.segments = std::vector<BlameSegment>();  // freed: for many requests they may outweigh the trace
    blame.detours = std::vector<Detour>();
    walks.blames.push_back(std::move(blame));
  }
  return walks;
}

}  // namespace analyze
PITOT_NAMESPACE_END
