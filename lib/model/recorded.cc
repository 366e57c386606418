// SPDX-License-Identifier: Apache-2.0
#include "model/recorded.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace pitot::model {

Depth DepthOf(const Trace& trace, int64_t begin_ns, int64_t end_ns) {
  const std::vector<DepthRow>& rows = trace.depths;
  if (rows.empty()) return trace.calls.size() != 0 || trace.gpu.size() != 0 ? Depth::kKernels : Depth::kScopes;
  auto row =
      std::partition_point(rows.begin(), rows.end(), [&](const DepthRow& one) { return one.begin_ns <= begin_ns; });
  if (row == rows.begin()) return Depth::kScopes;
  Depth depth = Depth::kOps;
  for (--row; begin_ns < end_ns; ++row) {
    if (row == rows.end() || row->begin_ns > begin_ns || row->end_ns <= begin_ns) return Depth::kScopes;
    depth = std::min(depth, row->depth);
    begin_ns = row->end_ns;
  }
  return depth;
}

bool AreWaitsRecorded(const Trace& trace) {
  bool are_seen = false;
  for (const Attribute& attribute : trace.attributes) {
    const std::string_view key = trace.strings[attribute.key];
    if (key == "cuda_calls.not_recorded") return false;
    are_seen |= key == "cuda_calls.libraries" || key == "cuda_calls.looked_up";
  }
  return are_seen;
}

bool HasGpuWork(const Trace& trace) {
  const auto is_deep = [](const DepthRow& row) { return row.depth != Depth::kScopes; };
  const auto is_work = [](GpuKind kind) { return kind != GpuKind::kSpan; };
  return std::any_of(trace.depths.begin(), trace.depths.end(), is_deep) ||
         std::any_of(trace.gpu.kind.begin(), trace.gpu.kind.end(), is_work);
}

}  // namespace pitot::model
