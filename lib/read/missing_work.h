// SPDX-License-Identifier: Apache-2.0
//
// Finds launches whose GPU work is not in a file.
#ifndef PITOT_LIB_READ_MISSING_WORK_H_
#define PITOT_LIB_READ_MISSING_WORK_H_

#include <cstdint>
#include <vector>

#include "pitot/model/trace.h"

namespace pitot::read {

// Launches without work: their stretches, as rows of Trace::gpu_losses with the reasons of lib/base/gpu_loss_reason.h.
struct MissingWork {
  std::vector<model::GpuLossRow> losses;
  uint64_t launches = 0;  // without any work
};

// `had_work`: calls whose work is in the file, but not in the trace as theirs. The trace is complete but for its
// losses.
//
// Launches into a capture have no work, and neither may those at the end of the window, whose work began after it. Work
// without a call may be that of any earlier launch. Fewer than one launch of a hundred may have failed. Graphs are
// judged apart from kernels: one holds many. A launch with less than half of the work of
// the graph's fullest launch is recorded in part. Without ids of graphs that is less than half of all work that
// launches had, if most launches had work of their own: a graph has the same work each time.
MissingWork FindMissingWork(model::Trace* trace, const std::vector<bool>& had_work);

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_MISSING_WORK_H_
