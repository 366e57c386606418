// SPDX-License-Identifier: Apache-2.0
//
// LibTorch's caching allocator of CUDA memory tells what it does, under its lock: nothing here waits, allocates (but
// the ring of a thread that had none) or calls CUDA. It cannot be told to stop.
#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <atomic>

#include "collect/torch/gpu_memory.h"

namespace pitot::libtorch {
namespace {

namespace Caching = c10::cuda::CUDACachingAllocator;
using Action = Caching::TraceEntry;

constinit bool g_is_watched = false;
constinit GpuAccount g_accounts[kMostDevices];
constinit std::atomic<bool> g_has_begun[kMostDevices] = {};

// Takes the allocator's lock, which a thread may take again that has it.
GpuNumbers Numbers(int32_t device) {
  const auto stats = Caching::getDeviceStats(static_cast<c10::DeviceIndex>(device));
  const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return {stats.allocated_bytes[all].current, stats.reserved_bytes[all].current, stats.num_alloc_retries};
}

void OnTrace(const Caching::TraceEntry& entry) {
  const int32_t device = entry.device_;
  if (device < 0 || device >= kMostDevices || !g_has_begun[device].load(std::memory_order_acquire)) return;
  GpuAccount& account = g_accounts[device];
  const auto bytes = static_cast<int64_t>(entry.size_);
  switch (entry.action_) {
    case Action::ALLOC:
      return account.Note(GpuEvent::kAllocated, bytes, 0);
    case Action::FREE_REQUESTED:
      return account.Note(GpuEvent::kFreed, bytes, 0);
    case Action::SEGMENT_ALLOC:
    case Action::SEGMENT_MAP:
      return account.Note(GpuEvent::kReserved, bytes, 0);
    case Action::SEGMENT_FREE:
    case Action::SEGMENT_UNMAP:
      return account.Note(GpuEvent::kReleased, bytes, 0);
    case Action::OOM:
      return account.Note(GpuEvent::kOutOfMemory, bytes, static_cast<uint64_t>(entry.addr_));
    default:
      return;
  }
}

}  // namespace

std::string WatchCuda() {
  if (!at::hasCUDA() || c10::cuda::device_count() == 0) return {};
  if (!g_is_watched) {
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);  // the allocator takes no tracker before; no context
    Caching::attachAllocatorTraceTracker(OnTrace);              // throws where the allocator is another
    g_is_watched = true;
  }
  // What is told before an account has begun is in its first numbers, or found at its first event.
  for (int32_t device = 0; device < std::min<int32_t>(c10::cuda::device_count(), kMostDevices); ++device) {
    if (g_has_begun[device].load()) continue;
    if (!g_accounts[device].Begin(device, Numbers(device), Numbers)) return "no memory";
    g_has_begun[device].store(true, std::memory_order_release);
  }
  return {};
}

}  // namespace pitot::libtorch
