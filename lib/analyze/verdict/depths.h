// SPDX-License-Identifier: Apache-2.0
//
// Compares requests recorded at different depths, by the facts known of all of them.
#ifndef PITOT_LIB_ANALYZE_VERDICT_DEPTHS_H_
#define PITOT_LIB_ANALYZE_VERDICT_DEPTHS_H_

#include <algorithm>
#include <cstdint>

#include "analyze/verdict/namespace.h"
#include "pitot/analyze/why.h"
#include "pitot/depth.h"

namespace pitot::verdict {

// Code of its threads, on a CPU as far as is known.
inline constexpr uint32_t kOnCpu =
    BlameBit(Blame::kHostOncpuPre) | BlameBit(Blame::kHostOncpuFramework) | BlameBit(Blame::kHostOncpuPost);

// Parts blamed only on GPUs or calls of their API.
inline constexpr uint32_t kOfGpus =
    BlameBit(Blame::kLaunchApi) | BlameBit(Blame::kLaunchLatency) | BlameBit(Blame::kLaunchQueueFull) |
    BlameBit(Blame::kAllocStall) | BlameBit(Blame::kLazyLoadJit) | BlameBit(Blame::kSyncReturn) |
    BlameBit(Blame::kH2d) | BlameBit(Blame::kD2h) | BlameBit(Blame::kD2dMemset) | BlameBit(Blame::kGpuExecExpected) |
    BlameBit(Blame::kGpuContention) | BlameBit(Blame::kGpuClock) | BlameBit(Blame::kGpuExcessUnknown) |
    BlameBit(Blame::kGpuQueueWaitOthers) | BlameBit(Blame::kDispatchGap) | BlameBit(Blame::kCommExposed);

// Treats depths at which the same is known of GPUs as one.
inline Depth ForGpus(Depth depth) { return std::min(depth, Depth::kKernels); }

// Parts that a GPU's counters tell at any depth; parts that recorded waits (pitot::cuda_calls) tell at any depth.
inline constexpr uint32_t kByCounters =
    BlameBit(Blame::kGpuExecExpected) | BlameBit(Blame::kH2d) | BlameBit(Blame::kD2h);
inline constexpr uint32_t kByWaits = kByCounters | BlameBit(Blame::kAllocStall) | BlameBit(Blame::kLazyLoadJit) |
                                     BlameBit(Blame::kSyncReturn) | BlameBit(Blame::kGpuContention) |
                                     BlameBit(Blame::kGpuQueueWaitOthers) | BlameBit(Blame::kLaunchApi) |
                                     BlameBit(Blame::kLaunchQueueFull);

// Whether that depth was in force all the time; otherwise the request was recorded deeper for a part of it.
// `at_any_depth`: parts that are told at any depth.
bool IsWhole(Depth depth, const BlameVector& blame, uint32_t at_any_depth);

// The part's name where GPUs were not recorded: code of the thread waiting for them. Only batches separate code before,
// in and after the model's work then.
Blame Coarse(Blame blame, bool has_batches);
void MakeCoarse(BlameVector* blame, bool has_batches);

}  // namespace pitot::verdict

#endif  // PITOT_LIB_ANALYZE_VERDICT_DEPTHS_H_
