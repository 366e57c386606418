// SPDX-License-Identifier: Apache-2.0
//
// What LibTorch's allocators hold, of the process: they cannot be left once they are watched, so that what is
// allocated stays known from then on.
#ifndef PITOT_LIB_COLLECT_TORCH_MEMORY_H_
#define PITOT_LIB_COLLECT_TORCH_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "collect/torch/memory_history.h"
#include "trace/clock.h"

namespace pitot::libtorch {

// A kind of memory. Lives for ever.
struct Memory {
  Memory(int32_t of_device, int64_t now) : device(of_device), allocated(now) {}

  const int32_t device;  // CUDA's ordinal; pitot::torch::kCpu
  MemoryHistory allocated;
  std::unique_ptr<MemoryHistory> reserved;  // of GPUs: what the allocator has taken of it; null for the CPU
  std::atomic<uint64_t> retries{0}, out_of_memory{0};
};

inline constexpr int32_t kMostDevices = 16;

// Null if it is not watched, or is a GPU's that has allocated nothing yet, or that a parent of this process watches.
// Threads: any.
Memory* FindMemory(int32_t device) noexcept;
// Watches it, if it is not yet, and begins from so many bytes. Null: no memory. One call at a time for each device,
// once the clock runs.
Memory* MakeMemory(int32_t device, int64_t allocated_bytes = 0, int64_t reserved_bytes = 0) noexcept;
// How many of CUDA's devices, from the first, are watched: one of these that has no Memory has allocated nothing yet.
void SetWatchedDevices(int32_t devices) noexcept;
// Whether it was a parent of this process, which was forked since, that had them watched: the allocator's locks may be
// held here for ever, and CUDA does not work.
bool AreWatchedByParent() noexcept;

// What Memorys take. Threads: any.
uint64_t HistoryBytes() noexcept;

// Now, for histories. Their clock is their own, the same from the first on: they outlive recorders, of which each may
// have another. Threads: any.
int64_t MemoryNow() noexcept;
// The same, of a moment at which the CPU's cycle counter was read, to who has that: most of what an event costs is to
// read it.
int64_t MemoryTime(uint64_t cycles) noexcept;
// Idempotent. One call at a time.
void StartMemoryClock() noexcept;
// That clock's ticks to CLOCK_MONOTONIC, and back. Once there is a history.
trace::ClockMap MemoryClock() noexcept;

// Whether the recorder that runs has each allocation of so many bytes or more recorded in its thread's ring: smaller
// ones are most, and would leave the ring little room for else.
inline constexpr int64_t kLeastRecordedBytes = 64 << 10;
void RecordAllocations(bool on) noexcept;

// An allocator gave so many bytes, or took them back. `said_bytes`: what was recorded when it gave them, where since it
// is known that they were more.
void NoteAllocated(Memory* memory, int64_t bytes, int64_t now) noexcept;
void NoteFreed(Memory* memory, int64_t taken_bytes, int64_t said_bytes, int64_t now) noexcept;
inline void NoteFreed(Memory* memory, int64_t bytes, int64_t now) noexcept { NoteFreed(memory, bytes, bytes, now); }

// Has the allocators tell us. "" or why one does not. They throw what LibTorch throws. One call at a time.
std::string WatchCpu();
std::string WatchCuda();

}  // namespace pitot::libtorch

#endif  // PITOT_LIB_COLLECT_TORCH_MEMORY_H_
