// SPDX-License-Identifier: Apache-2.0
//
// What a GPU did, in kinds: for collectors, which say it, and for traces, which hold it.
#ifndef PITOT_GPU_KIND_H_
#define PITOT_GPU_KIND_H_

#include <stdint.h>

#include "pitot/export.h"

PITOT_NAMESPACE_BEGIN

// The numbers are written to files.
enum class GpuKind : uint8_t {
  kKernel = 1,
  kMemcpy = 2,
  kMemset = 3,
  kGraph = 4,  // a whole CUDA graph, where its nodes were not recorded
  kSpan = 5,   // from one CUDA event to another: what was enqueued between the two, with the gaps in it
};

PITOT_NAMESPACE_END

#endif  // PITOT_GPU_KIND_H_
