// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/walks.h"

#include <algorithm>

PITOT_NAMESPACE_BEGIN
namespace analyze {

Walks FindWalks(const model::Trace& trace) {
  Walks walks;
  std::vector<uint32_t> rows;
  for (uint32_t row = 0; row < trace.requests.size(); ++row) {
    if (IsWhole(trace.requests[row])) rows.push_back(row);
  }
  walks.whole = rows.size();
  if (rows.empty()) return walks;
  BlameIndex index;
  if (!BlameIndex::Make(trace, BlameOptions(), &index).ok()) return walks;
  const size_t wanted = std::min<size_t>(rows.size(), Walks::kMost);
  for (size_t i = 0; i < wanted; ++i) {
    RequestBlame blame;
    if (FindBlame(index, rows[i * rows.size() / wanted], &blame).ok()) walks.blames.push_back(std::move(blame));
  }
  return walks;
}

}  // namespace analyze
PITOT_NAMESPACE_END
