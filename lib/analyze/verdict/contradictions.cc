// SPDX-License-Identifier: Apache-2.0
#include "analyze/verdict/contradictions.h"

namespace pitot::verdict {

const Exclusion kExclusions[] = {
    // Where work piles up before a GPU, its calls look slow because they wait for room.
    {"a10.launch_bound", "a11.queue_full", Meeting::kSameGpu,
     "either a GPU waits for launches, or launches wait for the GPU"},
    // Memory runs out for one reason or the other.
    {"a23.leak", "a23.fragmentation", Meeting::kSameGpu,
     "either more and more memory is allocated, or free memory is fragmented"},
    // Each divides the excess of kernels by a model of its own: overlap, clocks.
    {"gpu_clock", "gpu_contention", Meeting::kSameKernels,
     "either a low clock made these kernels longer, or other work on the GPU did"},
    // Calls that wait for room look slow: the same as above, for one request.
    {"launch_api", "launch_queue_full", Meeting::kSameCalls,
     "either these calls are slow, or they wait for room because the GPU is behind"},
    {nullptr, nullptr, Meeting::kSameGpu, nullptr}};

}  // namespace pitot::verdict
