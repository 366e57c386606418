// SPDX-License-Identifier: Apache-2.0
#include "collect/profile/occupancy.h"

#include <algorithm>
#include <cstdlib>

namespace pitot::profile {
namespace {

// CUfunction_attribute and CUdevice_attribute.
constexpr int kStaticShared = 1, kRegisters = 4;
constexpr int kWarpSize = 10, kProcessors = 16, kThreadsOfSm = 39, kSharedOfSm = 81, kRegistersOfSm = 82,
              kBlocksOfSm = 106, kReservedShared = 111;

// How GPUs since Volta hand out registers and shared memory.
constexpr int64_t kRegistersUnit = 256, kWarpsUnit = 4, kSharedUnit = 128;

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

struct Sm {
  int warp = 0, threads = 0, registers = 0, shared = 0, reserved = 0, blocks = 0;
};

// The resource with the fewest blocks. The driver's own number decides, and this finds its owner.
OccupancyLimit LimitOf(const Sm& sm, int64_t blocks, int64_t threads, int64_t registers, int64_t shared) {
  const int64_t warps = RoundUp(threads, sm.warp) / sm.warp;
  int64_t by_registers = sm.blocks;
  if (registers != 0) {
    const int64_t of_warp = RoundUp(registers * sm.warp, kRegistersUnit);
    by_registers = sm.registers / kWarpsUnit / of_warp * kWarpsUnit / warps;
  }
  const int64_t of_block = RoundUp(shared + sm.reserved, kSharedUnit);
  const struct {
    OccupancyLimit limit;
    int64_t blocks;
  } limits[] = {{OccupancyLimit::kThreads, sm.threads / sm.warp / warps},
                {OccupancyLimit::kRegisters, by_registers},
                {OccupancyLimit::kSharedMemory, of_block != 0 ? sm.shared / of_block : sm.blocks},
                {OccupancyLimit::kBlocks, sm.blocks}};
  const auto* const least =
      std::min_element(std::begin(limits), std::end(limits), [&](const auto& one, const auto& other) {
        return std::llabs(one.blocks - blocks) < std::llabs(other.blocks - blocks);
      });
  return least->limit;
}

}  // namespace

void AddOccupancy(const Driver& driver, int device, void* function, KernelProfile* kernel) {
  int value = 0;
  if (driver.function_attribute(&value, kRegisters, function) == 0)
    kernel->registers_per_thread = static_cast<uint32_t>(value);
  if (driver.function_attribute(&value, kStaticShared, function) == 0)
    kernel->static_shared_bytes = static_cast<uint32_t>(value);
  const int64_t threads = int64_t{kernel->block[0]} * kernel->block[1] * kernel->block[2];
  Sm sm;
  int blocks = 0, processors = 0;
  const auto get = [&](int* of, int attribute) {
    return driver.device_attribute(of, attribute, device) == 0 && *of > 0;
  };
  const bool is_known = threads > 0 && get(&sm.warp, kWarpSize) && get(&sm.threads, kThreadsOfSm) &&
                        driver.most_blocks(&blocks, function, static_cast<int>(threads),
                                           static_cast<size_t>(kernel->dynamic_shared_bytes)) == 0 &&
                        blocks > 0;
  if (!is_known) return;
  const int64_t warps = RoundUp(threads, sm.warp) / sm.warp, most_warps = sm.threads / sm.warp;
  kernel->theoretical_occupancy_percent = 100.0 * static_cast<double>(blocks * warps) / static_cast<double>(most_warps);
  if (get(&processors, kProcessors)) {
    const double grid = static_cast<double>(kernel->grid[0]) * kernel->grid[1] * kernel->grid[2];
    kernel->waves = grid / (static_cast<double>(blocks) * processors);
  }
  const bool has_limits = get(&sm.registers, kRegistersOfSm) && get(&sm.shared, kSharedOfSm) &&
                          get(&sm.blocks, kBlocksOfSm) && kernel->registers_per_thread.has_value() &&
                          kernel->static_shared_bytes.has_value();
  if (!has_limits) return;
  if (driver.device_attribute(&sm.reserved, kReservedShared, device) != 0) sm.reserved = 0;
  const int64_t shared = static_cast<int64_t>(kernel->dynamic_shared_bytes + *kernel->static_shared_bytes);
  kernel->limited_by = LimitOf(sm, blocks, threads, *kernel->registers_per_thread, shared);
}

}  // namespace pitot::profile
