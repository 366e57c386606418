// SPDX-License-Identifier: Apache-2.0
//
// PyTorch's profiler in the same process: CUPTI has one user at a time, and the profiler does not ask.
#ifndef PITOT_LIB_COLLECT_CUPTI_KINETO_H_
#define PITOT_LIB_COLLECT_CUPTI_KINETO_H_

namespace pitot::cupti {

enum class KinetoState {
  kAbsent,   // no LibTorch with CUDA's profiler in this process
  kUnused,   // it may profile later, and has not yet
  kIdle,     // it has profiled, or is about to
  kActive,   // it profiles: CUPTI's buffers and kinds are its own
  kUnknown,  // there, but its version cannot be asked
};

// Asks the loaded LibTorch. Cost: 20 ns once it has profiled, some us before, some 100 us after libraries were loaded.
// Thread: one at a time.
KinetoState AskKineto() noexcept;

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_KINETO_H_
