// SPDX-License-Identifier: Apache-2.0
//
// How full a launch can make a multiprocessor.
#ifndef PITOT_LIB_MODEL_OCCUPANCY_H_
#define PITOT_LIB_MODEL_OCCUPANCY_H_

#include "pitot/model/gpu.h"

namespace pitot::model {

// The threads that run as one: 32 on NVIDIA's devices and on AMD's RDNA, 64 on AMD's GCN and CDNA (HIP 6.1, "Hardware
// implementation"). PyTorch's profiler writes the number, also for ROCm (Kineto, DeviceProperties.cpp: warpSize). A
// device whose number is not known is taken for one of NVIDIA's.
inline uint32_t ThreadsPerWarp(const DeviceRow& device) {
  return device.threads_per_warp != 0 ? device.threads_per_warp : 32;
}

// Theoretical occupancy in percent: how many warps of such blocks a multiprocessor can hold at once, relative to its
// limit of warps. 0 if the device's limits or the shape are unknown, or if no block fits (then the limits are wrong).
//
// The formula of NVIDIA's occupancy calculator (CUDA Toolkit, cuda_occupancy.h): the smallest number of blocks allowed
// by the limits of warps, blocks, registers and shared memory. Registers are allocated to warps, in units of 256, from
// each of four sub-partitions. Shared memory is allocated to blocks, in units of 128 bytes, with 1 KiB more for the
// system. Devices before compute capability 8.0 (at most 96 KiB a multiprocessor) use units of 256 bytes and nothing
// for the system.
//
// AMD's compute units with waves of 64 (LLVM, AMDGPUBaseInfo.cpp: getMaxWorkGroupsPerCU, getVGPRAllocGranule,
// getTotalNumVGPRs; "User Guide for AMDGPU Backend", granulated LDS size): four SIMDs; registers in units of 8 a
// thread, or of 4 before CDNA 2; at most 16 blocks, but for those of a single wave; shared memory in units of 512
// bytes.
//
// Not considered: clusters, a smaller carve-out of shared memory, and grids too small for the device.
double TheoreticalOccupancyPercent(const DeviceRow& device, const KernelShape& shape);

// What keeps a multiprocessor from holding more blocks.
enum class OccupancyLimit : uint8_t { kUnknown, kWarps, kBlocks, kRegisters, kSharedMemory };
struct Occupancy {
  double percent = 0;                               // as above
  OccupancyLimit limit = OccupancyLimit::kUnknown;  // the first of them in this order, if several allow as few blocks
};
Occupancy TheoreticalOccupancy(const DeviceRow& device, const KernelShape& shape);

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_OCCUPANCY_H_
