// SPDX-License-Identifier: Apache-2.0
//
// The indexes that analyzers share, built once for a trace.
#ifndef PITOT_MODEL_INDEXES_H_
#define PITOT_MODEL_INDEXES_H_

#include "pitot/export.h"
#include "pitot/model/classes.h"
#include "pitot/model/gpu_waits.h"
#include "pitot/model/index.h"
#include "pitot/model/trace.h"

PITOT_NAMESPACE_BEGIN
namespace model {

// O(n log n). The trace must outlive this. Many threads may read it.
struct Indexes {
  explicit Indexes(const Trace& trace) : launches(trace), sets(trace), waits(trace, launches), waiting(trace) {}
  const LaunchIndex launches;
  const IntervalSets sets;
  const GpuWaits waits;
  const WaitingCalls waiting;
};

}  // namespace model
PITOT_NAMESPACE_END

#endif  // PITOT_MODEL_INDEXES_H_
