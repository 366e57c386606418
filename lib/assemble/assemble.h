// SPDX-License-Identifier: Apache-2.0
//
// Turns a snapshot into a trace: decodes records, follows each thread's context back through time, joins requests,
// batches and hand-offs, and puts all of it on one clock.
#ifndef PITOT_LIB_ASSEMBLE_ASSEMBLE_H_
#define PITOT_LIB_ASSEMBLE_ASSEMBLE_H_

#include "pitot/model/trace.h"
#include "snapshot/snapshot.h"

namespace pitot::assemble {

// Rows that would cost more than about `most_bytes` together, at the peak of making the trace or files of it, are left
// out, oldest first, and counted as LossReason::kReserve. Throws bad_alloc. Cost: about 0.3 us an event.
model::Trace Assemble(const snapshot::Snapshot& snapshot, uint64_t most_bytes = uint64_t{1} << 62);

}  // namespace pitot::assemble

#endif  // PITOT_LIB_ASSEMBLE_ASSEMBLE_H_
