// SPDX-License-Identifier: Apache-2.0
#include "analyze/verdict/gpu_evidence.h"

#include <utility>

namespace pitot::verdict {

using model::kNone;

namespace {

// Parts in which a model works, or its thread waits for that.
constexpr uint32_t kOfModels =
    BlameBit(Blame::kHostOncpuFramework) | BlameBit(Blame::kLaunchApi) | BlameBit(Blame::kLaunchLatency) |
    BlameBit(Blame::kLaunchQueueFull) | BlameBit(Blame::kAllocStall) | BlameBit(Blame::kLazyLoadJit) |
    BlameBit(Blame::kSyncReturn) | BlameBit(Blame::kH2d) | BlameBit(Blame::kD2h) | BlameBit(Blame::kD2dMemset) |
    BlameBit(Blame::kGpuExecExpected) | BlameBit(Blame::kGpuContention) | BlameBit(Blame::kGpuQueueWaitOthers) |
    BlameBit(Blame::kGpuClock) | BlameBit(Blame::kGpuExcessUnknown) | BlameBit(Blame::kDispatchGap) |
    BlameBit(Blame::kCommExposed);

// The row of a segment's GPU; kNone: it used none, or which one is not known.
uint32_t DeviceOf(const blame::Index& index, const BlameSegment& segment) {
  if (segment.gpu != kNone) return index.trace.streams[index.trace.gpu.stream[segment.gpu]].device;
  return segment.batch == kNone && segment.call == kNone ? kNone : index.gpu_use.RowOf(segment.batch, segment.thread);
}

}  // namespace

std::optional<blame::GpuState> GpuStateOf(const blame::Index& index, const RequestBlame& blame, const Cause& cause) {
  if (cause.longest.empty() || (kOfModels & BlameBit(cause.blame)) == 0) return std::nullopt;
  const uint32_t device = DeviceOf(index, blame.segments[cause.longest[0]]);
  if (device == kNone) return std::nullopt;
  model::Intervals times;
  for (const BlameSegment& segment : blame.segments) {
    if (segment.blame == cause.blame) times.push_back({segment.begin_ns, segment.end_ns});
  }
  return index.gpu_states.In(device, model::Union(std::move(times)));
}

Proof ProofOfGpuState(const std::optional<blame::GpuState>& state) {
  if (!state) return Proof::kNone;
  if (state->HasOthers() && state->were_others_there) return Proof::kOthersOnGpu;
  if (state->IsClockLow()) return Proof::kLowClock;
  return state->IsMemoryBusier() ? Proof::kMemoryBound : Proof::kNone;
}

}  // namespace pitot::verdict
