// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/walks.h"

#include <algorithm>
#include <unordered_set>

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

Walks FindWalks(const model::Trace& trace, const BlameIndex* index) {
  Walks walks;
  const std::vector<uint32_t> rows = WholeRequests(trace);
  walks.whole = rows.size();
  if (rows.empty()) return walks;
  BlameIndex made;
  if (index == nullptr) {
    if (!BlameIndex::Make(trace, BlameOptions(), &made).ok()) return walks;
    index = &made;
  }
  const size_t wanted = std::min<size_t>(rows.size(), Walks::kMost);
  for (size_t i = 0; i < wanted; ++i) {
    RequestBlame blame;
    if (!FindBlame(*index, rows[i * rows.size() / wanted], &blame).ok()) continue;
    blame.segments = std::vector<BlameSegment>();  // of many requests they may outweigh the trace: freed
    blame.detours = std::vector<Detour>();
    walks.blames.push_back(std::move(blame));
  }
  return walks;
}

}  // namespace analyze
PITOT_NAMESPACE_END
