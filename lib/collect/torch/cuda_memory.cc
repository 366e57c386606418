// SPDX-License-Identifier: Apache-2.0
//
// LibTorch's caching allocator of CUDA memory reports its events under its lock, so nothing here waits or calls CUDA.
// The only allocations are the ring of a thread without one and, at a device's first event, 2 MiB for its history,
// which are zeroed. Reports cannot be stopped.
#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/ApproximateClock.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <type_traits>

#include "collect/torch/gpu_memory.h"

namespace pitot::libtorch {
namespace {

namespace Caching = c10::cuda::CUDACachingAllocator;
using Action = Caching::TraceEntry;

constinit bool g_is_watched = false;
constinit GpuAccount g_accounts[kMostDevices];
enum class State : uint8_t { kNone, kBeginning, kBegun };
constinit std::atomic<State> g_states[kMostDevices] = {};

// Reads the allocator's numbers. Takes its lock; a thread may take that again while it has it. Throws LibTorch's
// exceptions.
GpuNumbers Numbers(int32_t device) {
  const auto stats = Caching::getDeviceStats(static_cast<c10::DeviceIndex>(device));
  const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return {stats.allocated_bytes[all].current, stats.reserved_bytes[all].current, stats.num_alloc_retries,
          stats.inactive_split_bytes[all].current};
}

// Begins the account at a device's first event, or earlier if it has some memory. Events reported meanwhile are in its
// first numbers, or found at its next event.
State Begin(int32_t device) noexcept {
  std::atomic<State>& state = g_states[device];
  State now = state.load(std::memory_order_acquire);
  if (now != State::kNone || !state.compare_exchange_strong(now, State::kBeginning)) return now;
  bool is_begun = false;
  try {
    is_begun = g_accounts[device].Begin(device, Numbers(device), Numbers);
  } catch (...) {
    // Perhaps at the next event.
  }
  now = is_begun ? State::kBegun : State::kNone;
  state.store(now, std::memory_order_release);
  return now;
}

// The event's time: LibTorch has read the cycle counter for it, if it can be read.
int64_t TimeOf(const Caching::TraceEntry& entry) noexcept {
  // Otherwise it is the time of day.
  constexpr bool kAreCycles = std::is_unsigned_v<c10::approx_time_t>;
  return kAreCycles ? MemoryTime(static_cast<uint64_t>(entry.time_.approx_t_)) : MemoryNow();
}

void OnTrace(const Caching::TraceEntry& entry) noexcept {
  const int32_t device = entry.device_;
  if (device < 0 || device >= kMostDevices || Begin(device) != State::kBegun) return;
  GpuAccount& account = g_accounts[device];
  const auto bytes = static_cast<int64_t>(entry.size_);
  const auto address = static_cast<uint64_t>(entry.addr_);
  const int64_t now = TimeOf(entry);
  switch (entry.action_) {
    case Action::ALLOC:
      return account.Note(GpuEvent::kAllocated, bytes, address, now);
    case Action::FREE_REQUESTED:
      return account.Note(GpuEvent::kFreed, bytes, address, now);
    case Action::SEGMENT_ALLOC:
    case Action::SEGMENT_MAP:
      return account.Note(GpuEvent::kReserved, bytes, address, now);
    case Action::SEGMENT_FREE:
    case Action::SEGMENT_UNMAP:
      return account.Note(GpuEvent::kReleased, bytes, address, now);
    case Action::OOM:
      return account.Note(GpuEvent::kOutOfMemory, bytes, address, now);
    default:
      return;
  }
}

// "" or the reason why the allocator, another than LibTorch's own, reports nothing.
std::string Attach() {
  try {
    Caching::attachAllocatorTraceTracker(OnTrace);
    return {};
  } catch (const c10::Error& error) {
    return std::string(error.what_without_backtrace()) +
           "; to record this memory: use LibTorch's own allocator (PYTORCH_CUDA_ALLOC_CONF=backend:native)";
  }
}

}  // namespace

std::string WatchCuda() {
  if (!at::hasCUDA() || c10::cuda::device_count() == 0) return {};
  StartMemoryClock();
  if (!g_is_watched) {
    at::globalContext().lazyInitDevice(
        c10::DeviceType::CUDA);  // the allocator takes no tracker before; makes no context
    if (std::string why_not = Attach(); !why_not.empty()) return why_not;
    g_is_watched = true;
  }
  const int32_t devices = c10::cuda::device_count(), watched = std::min(devices, kMostDevices);
  SetWatchedDevices(watched);
  for (int32_t device = 0; device < watched; ++device) {
    if (Numbers(device).reserved_bytes != 0 && Begin(device) == State::kNone) return "no memory";
  }
  if (devices > kMostDevices)
    return "of " + std::to_string(devices) + " devices the first 16 are watched; pitot::nvml has the others' memory";
  return {};
}

}  // namespace pitot::libtorch
