// SPDX-License-Identifier: Apache-2.0
//
// Turns a snapshot into a trace: decodes records, follows each thread's context back through time, joins requests,
// batches and hand-offs, and puts all of it on one clock.
#ifndef PITOT_LIB_ASSEMBLE_ASSEMBLE_H_
#define PITOT_LIB_ASSEMBLE_ASSEMBLE_H_

#include <span>

#include "pitot/extend/collector.h"
#include "pitot/model/trace.h"
#include "snapshot/snapshot.h"

namespace pitot::assemble {

inline constexpr uint64_t kUnbounded = uint64_t{1} << 62;

// Rows that would cost more than about `most_bytes` together, at the peak of making the trace or files of it, are left
// out and counted: the oldest events of each thread (LossReason::kReserve), the last of the snapshot's open requests
// (kOpenRequests). `collectors` add what they kept. Throws bad_alloc. Cost: about 0.3 us an event.
model::Trace Assemble(const snapshot::Snapshot& snapshot, uint64_t most_bytes = kUnbounded,
                      std::span<Collector* const> collectors = {});

}  // namespace pitot::assemble

#endif  // PITOT_LIB_ASSEMBLE_ASSEMBLE_H_
