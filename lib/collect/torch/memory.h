// SPDX-License-Identifier: Apache-2.0
//
// The memory held by the process's LibTorch allocators. Once watched, they cannot be left, so their allocations stay
// known from then on.
#ifndef PITOT_LIB_COLLECT_TORCH_MEMORY_H_
#define PITOT_LIB_COLLECT_TORCH_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "collect/torch/memory_history.h"
#include "trace/clock.h"

namespace pitot::libtorch {

// A kind of memory. Lives as long as the process.
struct Memory {
  Memory(int32_t of_device, int64_t now) : device(of_device), allocated(now) {}

  const int32_t device;  // CUDA's ordinal; pitot::torch::kCpu
  MemoryHistory allocated;
  std::unique_ptr<MemoryHistory> reserved;  // taken from the GPU by its allocator; null for the CPU
  std::atomic<uint64_t> retries{0}, out_of_memory{0};
};

inline constexpr int32_t kMostDevices = 16;

// Null if the device is not watched; for a GPU also if it has allocated nothing yet, or a parent of this process
// watches it. Threads: any.
Memory* FindMemory(int32_t device) noexcept;
// Watches a device, if that is not done yet, and begins from these bytes. Null: no memory. One call at a time for each
// device, once the clock runs.
Memory* MakeMemory(int32_t device, int64_t allocated_bytes = 0, int64_t reserved_bytes = 0) noexcept;
// Sets how many of CUDA's devices, from the first, are watched. One of these without a Memory has allocated nothing
// yet.
void SetWatchedDevices(int32_t devices) noexcept;
// Whether a parent of this process set them before a fork. The allocator's locks may then be held here forever, and
// CUDA does not work.
bool AreWatchedByParent() noexcept;

// Memory used by all Memorys, bytes. Threads: any.
uint64_t HistoryBytes() noexcept;

// The present time for histories. They outlive recorders, and each recorder may have another clock, so histories have
// one of their own, the same from the first on. Threads: any.
int64_t MemoryNow() noexcept;
// The same for a moment at which the caller has read the CPU's cycle counter: reading it is most of an event's cost.
int64_t MemoryTime(uint64_t cycles) noexcept;
// Starts that clock. Idempotent. One call at a time.
void StartMemoryClock() noexcept;
// Maps that clock's ticks to CLOCK_MONOTONIC, and back. Once there is a history.
trace::ClockMap MemoryClock() noexcept;

// Whether the running recorder records each allocation of at least this many bytes in its thread's ring. Most are
// smaller, and would leave the ring little room for other events.
inline constexpr int64_t kLeastRecordedBytes = 64 << 10;
void RecordAllocations(bool on) noexcept;

// Notes bytes given or taken back by an allocator. `said_bytes`: as recorded when they were given, if they have since
// turned out to be more.
void NoteAllocated(Memory* memory, int64_t bytes, int64_t now) noexcept;
void NoteFreed(Memory* memory, int64_t taken_bytes, int64_t said_bytes, int64_t now) noexcept;
inline void NoteFreed(Memory* memory, int64_t bytes, int64_t now) noexcept { NoteFreed(memory, bytes, bytes, now); }

// Has the allocators report to us. "" or the reason why one does not. They throw LibTorch's exceptions. One call at a
// time.
std::string WatchCpu();
std::string WatchCuda();

}  // namespace pitot::libtorch

#endif  // PITOT_LIB_COLLECT_TORCH_MEMORY_H_
