// SPDX-License-Identifier: Apache-2.0
//
// Finished work of a device.
#ifndef PITOT_LIB_COLLECT_OPENCL_WORK_H_
#define PITOT_LIB_COLLECT_OPENCL_WORK_H_

#include <cstdint>

#include "pitot/extend/collector.h"
#include "pitot/trace.h"

namespace pitot::opencl {

// No initialisers, so memory stays untouched until it is written.
struct Work {
  int64_t begin_ns, duration_ns;
  int64_t enqueued_ns;
  uint64_t bytes;
  uint32_t correlation;
  Name name;
  uint32_t queue;  // its number in Queues
  uint8_t device;  // its place in Queues
  GpuKind kind;
  bool has_shape;     // below; false if the driver chose the block
  bool is_unordered;  // its queue runs commands in any order
  uint32_t grid[3], block[3];
};
static_assert(sizeof(Work) == 72);

}  // namespace pitot::opencl

#endif  // PITOT_LIB_COLLECT_OPENCL_WORK_H_
