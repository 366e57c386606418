// SPDX-License-Identifier: Apache-2.0
//
// Extend: a collector records calls of its device's API in the ring of the calling thread, with the request and the
// batch of that thread. Later it hands over the activities that they caused (pitot/extend/collector.h).
//
//   const uint64_t begin = pitot::BeginCall();
//   const cl_int result = next->clFinish(queue);
//   pitot::DeviceCall call{collector, cl_finish};  // both from Intern
//   call.context = 1, call.stream = NumberOf(queue);
//   pitot::EndCall(begin, call);
#ifndef PITOT_EXTEND_CALL_H_
#define PITOT_EXTEND_CALL_H_

#include <stdint.h>

#include "pitot/export.h"
#include "pitot/trace.h"

PITOT_NAMESPACE_BEGIN

inline constexpr uint32_t kAllStreams = 0xffffffff;  // all streams of the context

// A call of a device's API. Its numbers are those of the collector.
struct DeviceCall {
  Name collector;            // Intern(Collector::Name())
  Name api;                  // "cudaLaunchKernel"
  uint32_t correlation = 0;  // GpuActivity::correlation of the activities that it caused; 0: none
  // The target of a wait, as in TraceBuilder::AddStream. Context 0: it waited for nothing, or for something unknown.
  uint32_t context = 0, stream = 0;
};

// Reads the clock for EndCall; 0 while no recorder runs.
// Threads: any.
// Cost: a clock read.
PITOT_EXPORT uint64_t BeginCall() noexcept;
// Records a call that began at `begin_ticks` (0: records nothing) and ends now, in the context of the calling thread.
// Threads: any.
// Errors: a thread without a ring records nothing; Stats counts it.
// Cost: a scope with one argument, or with two if the target of a wait is known.
PITOT_EXPORT void EndCall(uint64_t begin_ticks, const DeviceCall& call) noexcept;

// The path of open scopes on the calling thread, outermost first, "forward / layer 3": GpuActivity::scope_path of work
// that is captured now and runs later. If a name has no room for all, the innermost ones are kept. Name{0} without open
// scopes or recorder.
// Threads: any.
// Cost: about 1 us.
PITOT_EXPORT Name OpenScopePath() noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_EXTEND_CALL_H_
