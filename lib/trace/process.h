// SPDX-License-Identifier: Apache-2.0
//
// One recorder per process: a second copy of the library (in a plug-in, say) finds the first through one exported
// symbol.
#ifndef PITOT_LIB_TRACE_PROCESS_H_
#define PITOT_LIB_TRACE_PROCESS_H_

#include <cstdint>

#include "pitot/export.h"

extern "C" {
// What one copy of the library tells the others. Grows at the end; `size` says how much of it a copy knows.
struct pitot_process_info {
  uint32_t size;
  uint32_t recording;  // atomic: 1 while that copy's recorder runs
  char version[24];
  const void* recorder;  // an address in the copy whose recorder runs: where the linker merged copies, not in this one
};
PITOT_EXPORT extern pitot_process_info pitot_process;
}

namespace pitot::trace {

// Claims the process for this copy. Null, or the file that holds the copy that records already (lives for ever).
const char* ClaimProcess() noexcept;
void ReleaseProcess() noexcept;

// Grows by one in the child of every fork after the first recorder started: what belongs to another epoch belongs to a
// parent, whose threads do not exist here.
uint32_t ForkEpoch() noexcept;
// Registers the handler that makes a child forget the recorder. Idempotent; false if the system refused.
bool WatchForks() noexcept;

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_PROCESS_H_
