// SPDX-License-Identifier: Apache-2.0
//
// How full a launch can make a multiprocessor.
#ifndef PITOT_LIB_MODEL_OCCUPANCY_H_
#define PITOT_LIB_MODEL_OCCUPANCY_H_

#include "pitot/model/gpu.h"

namespace pitot::model {

// Theoretical occupancy in percent: the most warps of such blocks that a multiprocessor holds at once, of all it could.
// 0 where the device's limits or the shape are not known, or say that no block fits (then the limits are wrong).
//
// The formula of NVIDIA's occupancy calculator (CUDA Toolkit, cuda_occupancy.h): the fewest blocks that the limits of
// warps, blocks, registers and shared memory allow. Registers are allocated to warps, in units of 256, from each of
// four sub-partitions; shared memory to blocks, in units of 128 bytes, with 1 KiB more for the system. Devices before
// compute capability 8.0, which are those with at most 96 KiB a multiprocessor, take units of 256 bytes and nothing for
// the system. Not considered: clusters, a smaller carve-out of shared memory, and grids too small to fill the device.
double TheoreticalOccupancyPercent(const DeviceRow& device, const KernelShape& shape);

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_OCCUPANCY_H_
