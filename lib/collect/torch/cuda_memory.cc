// SPDX-License-Identifier: Apache-2.0
//
// LibTorch's caching allocator of CUDA memory tells what it does, under its lock: nothing here waits, allocates (but
// the ring of a thread that had none) or calls CUDA. It cannot be told to stop.
#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <atomic>

#include "collect/torch/memory.h"
#include "pitot/trace.h"

namespace pitot::libtorch {
namespace {

namespace Caching = c10::cuda::CUDACachingAllocator;
using Action = Caching::TraceEntry;

constinit bool g_is_watched = false;

// What the allocator gives is larger than what was asked for, which is all it tells: once a bucket, by how much.
void CorrectOffset(Memory* memory, int64_t now) {
  const int64_t bucket = now >> MemoryHistory::kBucketBits;
  if (memory->corrected_bucket.exchange(bucket, std::memory_order_relaxed) == bucket) return;
  const auto stats = Caching::getDeviceStats(static_cast<c10::DeviceIndex>(memory->device));
  const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  memory->allocated.SetOffset(stats.allocated_bytes[all].current - stats.requested_bytes[all].current);
}

void NoteReserved(Memory* memory, int64_t bytes, bool is_after_free) {
  memory->reserved.Add(bytes, MemoryNow());
  const int32_t device = memory->device;
  const uint64_t reserved = memory->reserved.bytes(), allocated = memory->allocated.bytes();
  if (bytes < 0) {
    const int64_t freed = -bytes;
    PITOT_INSTANT("cudaFree of cached memory", freed, device, reserved, allocated);
  } else if (is_after_free) {
    memory->retries.fetch_add(1, std::memory_order_relaxed);
    PITOT_INSTANT("cudaMalloc after cached memory was freed", bytes, device, reserved, allocated);
  } else {
    PITOT_INSTANT("cudaMalloc", bytes, device, reserved, allocated);
  }
}

void OnTrace(const Caching::TraceEntry& entry) {
  Memory* const memory = FindMemory(entry.device_);
  if (memory == nullptr) return;
  // An allocation that finds no memory frees what is cached and tries again, in one call.
  static thread_local bool was_free = false;
  const bool is_after_free = was_free;
  was_free = entry.action_ == Action::SEGMENT_FREE || entry.action_ == Action::SEGMENT_UNMAP;
  const auto bytes = static_cast<int64_t>(entry.size_);
  switch (entry.action_) {
    case Action::ALLOC:
      CorrectOffset(memory, MemoryNow());
      return NoteAllocated(memory, entry.size_);
    case Action::FREE_REQUESTED:
      return NoteFreed(memory, entry.size_);
    case Action::SEGMENT_ALLOC:
    case Action::SEGMENT_MAP:
      return NoteReserved(memory, bytes, is_after_free);
    case Action::SEGMENT_FREE:
    case Action::SEGMENT_UNMAP:
      return NoteReserved(memory, -bytes, false);
    case Action::OOM: {
      memory->out_of_memory.fetch_add(1, std::memory_order_relaxed);
      const int32_t device = entry.device_;
      const auto free_bytes = static_cast<uint64_t>(entry.addr_);
      const uint64_t reserved = memory->reserved.bytes(), allocated = memory->allocated.bytes();
      PITOT_INSTANT("out of GPU memory", bytes, device, free_bytes, reserved, allocated);
      return;
    }
    default:
      return;
  }
}

}  // namespace

std::string WatchCuda() {
  if (g_is_watched || !at::hasCUDA() || c10::cuda::device_count() == 0) return {};
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);  // the allocator takes no tracker before; makes no context
  for (int32_t device = 0; device < c10::cuda::device_count() && device < kMostDevices; ++device) {
    Memory* const memory = MakeMemory(device);
    if (memory == nullptr) return "no memory";
    const auto stats = Caching::getDeviceStats(static_cast<c10::DeviceIndex>(device));
    const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const int64_t now = MemoryNow();
    memory->allocated.SetOffset(stats.allocated_bytes[all].current - stats.requested_bytes[all].current);
    memory->allocated.Add(stats.requested_bytes[all].current, now);
    memory->reserved.Add(stats.reserved_bytes[all].current, now);
  }
  Caching::attachAllocatorTraceTracker(OnTrace);
  g_is_watched = true;
  return {};
}

}  // namespace pitot::libtorch
