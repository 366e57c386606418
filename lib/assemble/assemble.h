// SPDX-License-Identifier: Apache-2.0
//
// Turns a snapshot into a trace. Decodes records, follows each thread's context back through time, joins requests,
// batches and hand-offs, and puts all of it on one clock.
#ifndef PITOT_LIB_ASSEMBLE_ASSEMBLE_H_
#define PITOT_LIB_ASSEMBLE_ASSEMBLE_H_

#include <span>

#include "pitot/extend/collector.h"
#include "pitot/model/trace.h"
#include "snapshot/snapshot.h"

namespace pitot::assemble {

inline constexpr uint64_t kUnbounded = uint64_t{1} << 62;

// Collectors have one in so many bytes of the limit for rows, as far as they ask for it.
inline constexpr uint64_t kCollectorPart = 4;
// Limits for the approximate cost of rows, at the peak of making the trace or its files.
struct RowLimits {
  uint64_t bytes = kUnbounded;  // of all rows
  uint64_t beyond_bytes = 0;    // on top, of collectors only
};

// Rows beyond the limits are left out and counted: the oldest events of each thread (LossReason::kReserve), and the
// last of the snapshot's open requests (kOpenRequests). `collectors` add the data they kept. Throws bad_alloc. Cost:
// O(n log n) of the events.
model::Trace Assemble(const snapshot::Snapshot& snapshot, const RowLimits& limits = {},
                      std::span<Collector* const> collectors = {});

}  // namespace pitot::assemble

#endif  // PITOT_LIB_ASSEMBLE_ASSEMBLE_H_
