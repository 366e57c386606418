// SPDX-License-Identifier: Apache-2.0
//
// What the caching allocator of a GPU tells, one thing at a time and under its lock, and the numbers that it keeps
// itself, made one account. It tells what was asked for; what it gave, which is more, is in its numbers only.
#ifndef PITOT_LIB_COLLECT_TORCH_GPU_MEMORY_H_
#define PITOT_LIB_COLLECT_TORCH_GPU_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "collect/torch/memory.h"

namespace pitot::libtorch {

// Told before the allocator's numbers of allocated bytes have an allocation, and after they have lost what is freed.
enum class GpuEvent : uint8_t { kAllocated, kFreed, kReserved, kReleased, kOutOfMemory };

struct GpuNumbers {
  int64_t allocated_bytes = 0, reserved_bytes = 0;
  int64_t retries = 0;               // allocations for which cached memory was freed; a host may set it to zero
  int64_t inactive_split_bytes = 0;  // cached in pieces of blocks in use: cannot be given back, nor be joined
};

class GpuAccount {
 public:
  // `numbers` reads the allocator's; it is called within Note only, where the lock is held, and may throw: then what it
  // said before holds. False: no memory.
  using Read = GpuNumbers (*)(int32_t device);
  bool Begin(int32_t device, const GpuNumbers& now, Read numbers) noexcept;

  // `address`: of a block; of an event out of memory, how many bytes the device has free. `now`: of MemoryNow's clock.
  // Under the allocator's lock. Cost: 15 ns; twice a millisecond, and once for each large block, or twice where small
  // ones were given or freed before it, a call of `numbers`.
  void Note(GpuEvent event, int64_t bytes, uint64_t address, int64_t now) noexcept;

 private:
  // Of what was given, which may be more than was asked for.
  struct Block {
    uint64_t address = 0;
    int64_t bytes = 0;
  };
  static constexpr size_t kBlocks = 256;

  // When the numbers are read: always where something is to be found out.
  enum class Look : uint8_t { kOnceAMoment, kNow, kUnknownIsFreed };

  bool ReadNumbers() noexcept;
  // The only place of a block among those that are known.
  Block& PlaceOf(uint64_t address) noexcept { return blocks_[(address >> 9) * 0x9e3779b97f4a7c15 >> 56]; }
  void Align(int64_t being_freed, Look look, int64_t now) noexcept;
  // Whether there were more of them.
  bool TakeRetries(int64_t retries) noexcept;

  Memory* memory_ = nullptr;
  Read read_ = nullptr;
  GpuNumbers numbers_;  // as last read
  int64_t seen_retries_ = 0;
  int64_t aligned_bucket_ = -1;  // of times since zero, as long as the history's
  int64_t exact_bytes_ = 0;      // blocks for which so many or less were asked are as large as they should be
  bool is_rough_ = true;         // something may not have been told
  bool is_assumed_ = false;      // blocks counted as large as they should be since the numbers were read
  Block last_;                   // the block given last, if it may be larger than we know
  Block blocks_[kBlocks];        // earlier ones, as large as they are
};

}  // namespace pitot::libtorch

#endif  // PITOT_LIB_COLLECT_TORCH_GPU_MEMORY_H_
