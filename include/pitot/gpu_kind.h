// SPDX-License-Identifier: Apache-2.0
//
// Kinds of GPU activities, for collectors and traces.
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
  kGraph = 4,  // a whole CUDA graph, if its nodes were not recorded
  kSpan = 5,   // from one CUDA event to another: the work enqueued in between, including gaps
};

PITOT_NAMESPACE_END

#endif  // PITOT_GPU_KIND_H_
