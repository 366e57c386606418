// SPDX-License-Identifier: Apache-2.0
//
// One recorder per process: another copy of the library (for example in a plug-in) finds the first one through an
// exported symbol.
#ifndef PITOT_LIB_TRACE_PROCESS_H_
#define PITOT_LIB_TRACE_PROCESS_H_

#include <cstdint>

#include "pitot/export.h"

extern "C" {
// Shared between copies of the library. Grows at the end; `size` is the part that a copy knows.
struct pitot_process_info {
  uint32_t size;
  uint32_t recording;  // atomic: 1 while that copy's recorder runs
  char version[24];
  // An address in the copy with the running recorder: if the linker merged copies, it is not in this one.
  const void* recorder;
};
PITOT_EXPORT extern pitot_process_info pitot_process;
}

namespace pitot::trace {

// Claims the process for this copy. Returns null, or the file of the copy that records already (valid for ever).
const char* ClaimProcess() noexcept;
void ReleaseProcess() noexcept;

// Grows by one in the child of every fork after the first recorder started, or OpenCL's layer was loaded. Data of
// another epoch belongs to a parent process, whose threads do not exist here.
uint32_t ForkEpoch() noexcept;
// In a child that no handler told of its fork (parent_only.h): does what the handler would have done.
void BecomeChild() noexcept;
// Registers the handler that makes a child forget the recorder. Idempotent; false if the system refused.
bool WatchForks() noexcept;

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_PROCESS_H_
