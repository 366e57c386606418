// SPDX-License-Identifier: Apache-2.0
//
// What the caching allocator of a GPU tells, one thing at a time and under its lock, and the numbers that it keeps
// itself, made one account. It tells what was asked for; what it gave, which is more, is in its numbers only.
#ifndef PITOT_LIB_COLLECT_TORCH_GPU_MEMORY_H_
#define PITOT_LIB_COLLECT_TORCH_GPU_MEMORY_H_

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

  // `free_bytes`: of the device, when it is out of memory. Under the allocator's lock. Cost: twice a millisecond, and
  // around large blocks, a call of `numbers`.
  void Note(GpuEvent event, int64_t bytes, uint64_t free_bytes) noexcept;

 private:
  bool ReadNumbers() noexcept;
  void Align(int64_t being_freed, bool is_due) noexcept;
  // Whether there were more of them.
  bool TakeRetries(int64_t retries) noexcept;

  Memory* memory_ = nullptr;
  Read read_ = nullptr;
  GpuNumbers numbers_;  // as last read
  int64_t seen_retries_ = 0;
  int64_t aligned_bucket_ = -1;  // of the history's
  bool is_rough_ = true;         // a block was given that may be larger than we know
};

}  // namespace pitot::libtorch

#endif  // PITOT_LIB_COLLECT_TORCH_GPU_MEMORY_H_
