// SPDX-License-Identifier: Apache-2.0
#include "analyze/verdict/depths.h"

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
