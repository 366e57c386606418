// SPDX-License-Identifier: Apache-2.0
//
// What was recorded of GPUs, and when: a value that was not recorded is not 0.
#ifndef PITOT_LIB_MODEL_RECORDED_H_
#define PITOT_LIB_MODEL_RECORDED_H_

#include <cstdint>

#include "pitot/model/trace.h"

namespace pitot::model {

// The least depth of GPU records from `begin_ns` to `end_ns`. A trace without depths was recorded the same all the
// time. O(log n), and the depths in between.
Depth DepthOf(const Trace& trace, int64_t begin_ns, int64_t end_ns);

// Whether all calls in which a thread waits for a GPU, or allocates its memory, were recorded, at any depth
// (pitot::cuda_calls).
bool AreWaitsRecorded(const Trace& trace);

// Whether a depth with kernels was recorded in some of the window, or there are kernels, copies or sets without one.
bool HasGpuWork(const Trace& trace);

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_RECORDED_H_
