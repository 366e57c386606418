// SPDX-License-Identifier: Apache-2.0
//
// What the GPU did during a cause, by its hardware counters.
#ifndef PITOT_LIB_ANALYZE_VERDICT_GPU_EVIDENCE_H_
#define PITOT_LIB_ANALYZE_VERDICT_GPU_EVIDENCE_H_

#include <optional>

#include "analyze/blame/walk.h"
#include "analyze/verdict/namespace.h"
#include "pitot/analyze/verdict.h"

namespace pitot::verdict {

// The state of the GPU that the longest segment of the cause used. Nothing: the cause is not about a model, its GPU is
// not known, or it was sampled less than twice meanwhile. O(segments + samples).
std::optional<blame::GpuState> GpuStateOf(const blame::Index& index, const RequestBlame& blame, const Cause& cause);

// What that proves of a cause made of GPU work.
Proof ProofOfGpuState(const std::optional<blame::GpuState>& state);

}  // namespace pitot::verdict

#endif  // PITOT_LIB_ANALYZE_VERDICT_GPU_EVIDENCE_H_
