// SPDX-License-Identifier: Apache-2.0
//
// One account from two sources. A GPU's caching allocator reports its events one at a time, under its lock; and it
// keeps numbers of its own. Events have the requested bytes; the given bytes are more, and only in the numbers.
#ifndef PITOT_LIB_COLLECT_TORCH_GPU_MEMORY_H_
#define PITOT_LIB_COLLECT_TORCH_GPU_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "collect/torch/memory.h"

namespace pitot::libtorch {

// An allocation is reported before the allocator's allocated bytes include it, a free after they have lost it.
enum class GpuEvent : uint8_t { kAllocated, kFreed, kReserved, kReleased, kOutOfMemory };

struct GpuNumbers {
  int64_t allocated_bytes = 0, reserved_bytes = 0;
  int64_t retries = 0;               // allocations for which cached memory was freed; a host may reset this to zero
  int64_t inactive_split_bytes = 0;  // cached in pieces of blocks in use: cannot be given back or joined
};

class GpuAccount {
 public:
  // `numbers` reads the allocator's. It is called within Note only, under the lock, and may throw; its previous numbers
  // then hold. False: no memory.
  using Read = GpuNumbers (*)(int32_t device);
  bool Begin(int32_t device, const GpuNumbers& now, Read numbers) noexcept;

  // `address`: of a block; for kOutOfMemory, the device's free bytes. `now`: of MemoryNow's clock. Under the
  // allocator's lock. Cost: 15 ns, and calls of `numbers`: two a millisecond, and one for each large block, or two if
  // small ones were given or freed before it.
  void Note(GpuEvent event, int64_t bytes, uint64_t address, int64_t now) noexcept;

 private:
  // A block with its given bytes, which may be more than requested.
  struct Block {
    uint64_t address = 0;
    int64_t bytes = 0;
  };
  static constexpr size_t kBlocks = 256;

  // When the numbers are read. While something is uncertain they are always read.
  enum class Look : uint8_t { kOnceAMoment, kNow, kUnknownIsFreed };

  bool ReadNumbers() noexcept;
  // The only place for this block among the known ones.
  Block& PlaceOf(uint64_t address) noexcept { return blocks_[(address >> 9) * 0x9e3779b97f4a7c15 >> 56]; }
  void NoteReserved(GpuEvent event, int64_t bytes, uint64_t address, int64_t now) noexcept;
  void Align(int64_t being_freed, Look look, int64_t now) noexcept;
  // Counts new retries; whether there were any.
  bool TakeRetries(int64_t retries) noexcept;

  Memory* memory_ = nullptr;
  Read read_ = nullptr;
  GpuNumbers numbers_;  // as last read
  int64_t seen_retries_ = 0;
  int64_t aligned_bucket_ = -1;  // bucket of the last alignment, of times since zero and as long as the history's
  int64_t exact_bytes_ = 0;      // blocks of requests up to this are as large as expected
  bool is_rough_ = true;         // an event may not have been reported
  bool is_assumed_ = false;      // blocks were counted at their expected size since the numbers were read
  Block last_;                   // the block given last, if it may be larger than known
  Block blocks_[kBlocks];        // earlier ones, with their true size
};

}  // namespace pitot::libtorch

#endif  // PITOT_LIB_COLLECT_TORCH_GPU_MEMORY_H_
