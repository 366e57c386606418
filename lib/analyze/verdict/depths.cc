// SPDX-License-Identifier: Apache-2.0
#include "analyze/verdict/depths.h"

#include <algorithm>
#include <cstdint>

namespace pitot::verdict {
namespace {

bool HasParts(uint32_t parts, const BlameVector& blame) {
  for (uint32_t k = 0; k < kBlames; ++k) {
    if ((parts >> k & 1) != 0 && blame.ns[k] != 0) return true;
  }
  return false;
}

}  // namespace

Depth DepthOf(const model::Trace& trace, int64_t begin_ns, int64_t end_ns) {
  const std::vector<model::DepthRow>& rows = trace.depths;
  if (rows.empty()) return trace.calls.size() != 0 || trace.gpu.size() != 0 ? Depth::kKernels : Depth::kScopes;
  auto row = std::partition_point(rows.begin(), rows.end(),
                                  [&](const model::DepthRow& one) { return one.begin_ns <= begin_ns; });
  if (row == rows.begin()) return Depth::kScopes;
  Depth depth = Depth::kOps;
  for (--row; begin_ns < end_ns; ++row) {
    if (row == rows.end() || row->begin_ns > begin_ns || row->end_ns <= begin_ns) return Depth::kScopes;
    depth = std::min(depth, row->depth);
    begin_ns = row->end_ns;
  }
  return depth;
}

bool IsWhole(Depth depth, const BlameVector& blame, uint32_t at_any_depth) {
  return ForGpus(depth) != Depth::kScopes || !HasParts(kOfGpus & ~at_any_depth, blame);
}

Blame Coarse(Blame blame, bool has_batches) {
  const uint32_t coarse = kOfGpus | (has_batches ? 0 : kOnCpu);
  return (coarse & BlameBit(blame)) != 0 ? Blame::kHostOncpuFramework : blame;
}

void MakeCoarse(BlameVector* blame, bool has_batches) {
  const BlameVector fine = *blame;
  *blame = {};
  for (uint32_t k = 0; k < kBlames; ++k) (*blame)[Coarse(static_cast<Blame>(k), has_batches)] += fine.ns[k];
}

}  // namespace pitot::verdict
