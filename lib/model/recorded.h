// SPDX-License-Identifier: Apache-2.0
//
// What was recorded of GPUs, and when: a value that was not recorded is not 0.
#ifndef PITOT_LIB_MODEL_RECORDED_H_
#define PITOT_LIB_MODEL_RECORDED_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pitot/model/intervals.h"
#include "pitot/model/trace.h"

namespace pitot::model {

// The least depth of GPU records from `begin_ns` to `end_ns`. A trace without depths was recorded the same all the
// time. Several processes may have a row each for one time. O(log n), and the depths in between.
Depth DepthOf(const Trace& trace, int64_t begin_ns, int64_t end_ns);

// Whether all calls in which a thread waits for a GPU, or allocates its memory, were recorded, at any depth
// (pitot::cuda_calls).
bool AreWaitsRecorded(const Trace& trace);

// Whether there was a GPU to record.
bool HasGpu(const Trace& trace);
// Whether the trace is from a dump that is damaged, or was when it was recovered.
bool IsDamagedDump(const Trace& trace);

// Whether a depth with kernels was recorded in some of the window, or there are kernels, copies or sets without one.
bool HasGpuWork(const Trace& trace);
// Whether kernels, or at least graphs, were recorded all the time between two moments. Without this there is no such
// work in the trace, whatever GPUs did. O(GPU rows).
bool IsGpuWorkRecorded(const Trace& trace, int64_t begin_ns, int64_t end_ns);
// The parts of `time` with such records. O(depths).
Intervals RecordedIn(const Trace& trace, Interval time);
// For each request, whether its GPU work was recorded all of its time. O(GPU rows + requests log depths).
std::vector<bool> AreRequestsRecorded(const Trace& trace);

// Why the recorder refused the collector of that attribute ("collector.cupti"); "" if it did not.
std::string WhyRefused(const Trace& trace, std::string_view collector);
// Why there are no kernels and, if known, how to record them, in C++'s words. "" if there are some, the trace is
// damaged, or nothing is known.
std::string WhyNoKernels(const Trace& trace);

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_RECORDED_H_
