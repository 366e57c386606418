// SPDX-License-Identifier: Apache-2.0
#include "model/occupancy.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace pitot::model {
namespace {

constexpr uint64_t kSubPartitions = 4;
constexpr uint64_t kBarriers = 16;          // of AMD's compute unit
constexpr uint32_t kThreadsOfCdna2 = 2048;  // of AMD's compute unit: 8 waves a SIMD, and 10 before
constexpr uint64_t kMostSharedBytesBefore8 = 98304;

bool IsAmd(const DeviceRow& device) { return ThreadsPerWarp(device) == 64; }

// How a multiprocessor allocates what blocks need.
struct Units {
  uint64_t registers = 256;   // of a warp
  uint64_t shared_bytes = 0;  // of a block
  uint64_t system_bytes = 0;  // of a block, for the system
};
Units UnitsOf(const DeviceRow& device) {
  if (IsAmd(device)) return {(device.threads_per_multiprocessor > kThreadsOfCdna2 ? uint64_t{4} : 8) * 64, 512, 0};
  const bool is_before_8 = device.shared_bytes_per_multiprocessor <= kMostSharedBytesBefore8;
  return is_before_8 ? Units{256, 256, 0} : Units{256, 128, 1024};
}

uint64_t RoundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

Occupancy TheoreticalOccupancy(const DeviceRow& device, const KernelShape& shape) {
  const uint64_t threads_per_warp = ThreadsPerWarp(device);
  const uint64_t most_warps = device.threads_per_multiprocessor / threads_per_warp;
  if (most_warps == 0 || device.blocks_per_multiprocessor == 0 || device.registers_per_multiprocessor == 0 ||
      device.shared_bytes_per_multiprocessor == 0 || shape.registers_per_thread == 0)
    return {};
  // A block that is too large for any multiprocessor need not be multiplied exactly.
  constexpr uint64_t kTooMany = 1 << 20;
  uint64_t threads = 1;
  for (const uint32_t size : shape.block) threads = std::min(threads * std::min<uint64_t>(size, kTooMany), kTooMany);
  if (threads == 0) return {};

  const Units units = UnitsOf(device);
  const uint64_t warps_per_block = RoundUp(threads, threads_per_warp) / threads_per_warp;
  const uint64_t by_warps = most_warps / warps_per_block;
  const uint64_t registers_per_warp = RoundUp(shape.registers_per_thread * threads_per_warp, units.registers);
  const uint64_t warps_by_registers =
      device.registers_per_multiprocessor / kSubPartitions / registers_per_warp * kSubPartitions;
  const uint64_t by_registers = warps_by_registers / warps_per_block;
  const uint64_t shared_bytes = RoundUp(
      uint64_t{shape.static_shared_bytes} + shape.dynamic_shared_bytes + units.system_bytes, units.shared_bytes);
  const uint64_t by_shared = shared_bytes == 0 ? UINT64_MAX : device.shared_bytes_per_multiprocessor / shared_bytes;
  const std::pair<uint64_t, OccupancyLimit> limits[] = {
      {by_warps, OccupancyLimit::kWarps},
      {IsAmd(device) && warps_per_block > 1 ? kBarriers : device.blocks_per_multiprocessor, OccupancyLimit::kBlocks},
      {by_registers, OccupancyLimit::kRegisters},
      {by_shared, OccupancyLimit::kSharedMemory},
  };
  const auto& [blocks, limit] = *std::min_element(std::begin(limits), std::end(limits));
  if (blocks == 0) return {};
  return {100.0 * static_cast<double>(blocks * warps_per_block) / static_cast<double>(most_warps), limit};
}

double TheoreticalOccupancyPercent(const DeviceRow& device, const KernelShape& shape) {
  return TheoreticalOccupancy(device, shape).percent;
}

}  // namespace pitot::model
