// SPDX-License-Identifier: Apache-2.0
//
// Work of graphs (CUDA's, HIP's).
#ifndef PITOT_LIB_MODEL_GRAPH_WORK_H_
#define PITOT_LIB_MODEL_GRAPH_WORK_H_

#include <cstdint>

#include "base/call_class.h"
#include "pitot/model/trace.h"

namespace pitot::model {

// Whether a row of `gpu` ran in a graph. Traces of PyTorch often have no ids of graphs; then its launch tells.
inline bool IsOfGraph(const Trace& trace, uint32_t gpu_row) {
  if (trace.gpu.graph[gpu_row] != 0 || trace.gpu.kind[gpu_row] == GpuKind::kGraph) return true;
  const uint32_t call = trace.gpu.call[gpu_row];
  return call != kNone && base::IsGraphLaunch(trace.strings[trace.calls.name[call]]);
}

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_GRAPH_WORK_H_
