// SPDX-License-Identifier: Apache-2.0
//
// What LibTorch's allocators hold, of the process: they cannot be left once they are watched, so that what is
// allocated stays known from then on.
#ifndef PITOT_LIB_COLLECT_TORCH_MEMORY_H_
#define PITOT_LIB_COLLECT_TORCH_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "collect/torch/memory_history.h"

namespace pitot::libtorch {

// A kind of memory. Lives for ever.
struct Memory {
  explicit Memory(int32_t of_device) : device(of_device) {}

  const int32_t device;  // CUDA's ordinal; pitot::torch::kCpu
  MemoryHistory allocated;
  MemoryHistory reserved;  // of devices: what the allocator has taken of it
  std::atomic<uint64_t> retries{0}, out_of_memory{0};
  std::atomic<int64_t> corrected_bucket{-1};
};

inline constexpr int32_t kMostDevices = 16;

// Null if it is not watched. Threads: any.
Memory* FindMemory(int32_t device) noexcept;
// Watches it, if it is not yet. Null: no memory. One call at a time.
Memory* MakeMemory(int32_t device) noexcept;

// Now, for histories: of the recorder's clock.
int64_t MemoryNow() noexcept;

// Whether each allocation of so many bytes or more is recorded in its thread's ring: smaller ones are most, and would
// leave the ring little room for else.
inline constexpr uint64_t kLeastRecordedBytes = 64 << 10;
void RecordAllocations(bool on) noexcept;

// An allocator says that it gave so many bytes, or took them back.
void NoteAllocated(Memory* memory, uint64_t bytes) noexcept;
void NoteFreed(Memory* memory, uint64_t bytes) noexcept;

// Has the allocators tell us. "" or why one does not. They throw what LibTorch throws. One call at a time.
std::string WatchCpu();
std::string WatchCuda();

}  // namespace pitot::libtorch

#endif  // PITOT_LIB_COLLECT_TORCH_MEMORY_H_
