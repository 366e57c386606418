// SPDX-License-Identifier: Apache-2.0
//
// Turns a snapshot into a trace: decodes records, follows each thread's context back through time, joins requests,
// batches and hand-offs, and puts all of it on one clock.
#ifndef PITOT_LIB_ASSEMBLE_ASSEMBLE_H_
#define PITOT_LIB_ASSEMBLE_ASSEMBLE_H_

#include "pitot/model/trace.h"
#include "snapshot/snapshot.h"

namespace pitot::assemble {

// Throws bad_alloc. Memory at its peak: about 120 bytes an event.
// Cost: about 0.3 us an event.
model::Trace Assemble(const snapshot::Snapshot& snapshot);

}  // namespace pitot::assemble

#endif  // PITOT_LIB_ASSEMBLE_ASSEMBLE_H_
