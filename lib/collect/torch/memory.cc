// SPDX-License-Identifier: Apache-2.0
#include "collect/torch/memory.h"

#include <new>

#include "pitot/collect/torch.h"
#include "pitot/trace.h"
#include "trace/clock.h"
#include "trace/process.h"
#include "trace/rings.h"

namespace pitot::libtorch {
namespace {

constinit std::atomic<Memory*> g_memories[kMostDevices + 1] = {};  // the CPU's, then the devices'
constinit std::atomic<int32_t> g_watched_devices{0};
constinit std::atomic<uint32_t> g_watched_in{0};  // a fork epoch
// The recorder with recorded allocations; 0: none. A forked child has its parent's number here, and may have a recorder
// of its own without them.
constinit std::atomic<uint32_t> g_records_for{0};
// Written before the first history is in place.
constinit bool g_is_os_clock = false;
constinit trace::ClockReading g_first_reading;

std::atomic<Memory*>* PlaceOf(int32_t device) noexcept {
  return device < torch::kCpu || device >= kMostDevices ? nullptr : &g_memories[device + 1];
}

uint32_t RecorderNow() noexcept { return trace::RecorderOf(__atomic_load_n(&detail::g_gate, __ATOMIC_RELAXED)); }

bool IsRecorded(int64_t bytes) noexcept {
  if (bytes < kLeastRecordedBytes) return false;
  const uint32_t recorder = g_records_for.load(std::memory_order_relaxed);
  return recorder != 0 && recorder == RecorderNow();
}

}  // namespace

void StartMemoryClock() noexcept {
  if (g_first_reading.ticks != 0) return;
  const char* why_not;
  g_is_os_clock = !trace::CycleCounterIsInvariant(&why_not);
  g_first_reading = trace::ReadClocks(g_is_os_clock);
}

Memory* FindMemory(int32_t device) noexcept {
  const auto* const place = PlaceOf(device);
  if (place == nullptr || (device != torch::kCpu && AreWatchedByParent())) return nullptr;
  return place->load(std::memory_order_acquire);
}

Memory* MakeMemory(int32_t device, int64_t allocated_bytes, int64_t reserved_bytes) noexcept {
  auto* const place = PlaceOf(device);
  if (place == nullptr) return nullptr;
  if (Memory* const memory = place->load()) return memory;
  StartMemoryClock();
  std::unique_ptr<Memory> memory(new (std::nothrow) Memory(device, MemoryNow()));
  if (memory == nullptr) return nullptr;
  memory->allocated.Add(allocated_bytes, MemoryNow());
  if (device != torch::kCpu) {
    memory->reserved.reset(new (std::nothrow) MemoryHistory(MemoryNow()));
    if (memory->reserved == nullptr) return nullptr;
    memory->reserved->Add(reserved_bytes, MemoryNow());
  }
  place->store(memory.get(), std::memory_order_release);
  return memory.release();
}

void SetWatchedDevices(int32_t devices) noexcept {
  g_watched_in.store(trace::ForkEpoch());
  g_watched_devices.store(devices);
}

bool AreWatchedByParent() noexcept {
  return g_watched_devices.load() != 0 && g_watched_in.load() != trace::ForkEpoch();
}

uint64_t HistoryBytes() noexcept {
  uint64_t bytes = 0;
  for (const std::atomic<Memory*>& place : g_memories) {
    if (const Memory* const memory = place.load(std::memory_order_acquire))
      bytes += sizeof(Memory) + (memory->reserved != nullptr ? sizeof(MemoryHistory) : 0);
  }
  return bytes;
}

int64_t MemoryNow() noexcept {
  return g_is_os_clock ? trace::MonotonicNs() : static_cast<int64_t>(trace::NowTicks(false));
}

int64_t MemoryTime(uint64_t cycles) noexcept {
  return g_is_os_clock ? trace::MonotonicNs() : static_cast<int64_t>(cycles);
}

trace::ClockMap MemoryClock() noexcept { return {g_first_reading, trace::ReadClocks(g_is_os_clock)}; }

void RecordAllocations(bool on) noexcept { g_records_for.store(on ? RecorderNow() : 0, std::memory_order_relaxed); }

void NoteAllocated(Memory* memory, int64_t bytes, int64_t now) noexcept {
  memory->allocated.Add(bytes, now);
  if (!IsRecorded(bytes)) return;
  const int32_t device = memory->device;
  const uint64_t allocated = memory->allocated.bytes();
  if (device == torch::kCpu)
    PITOT_INSTANT("allocate", bytes, allocated);
  else
    PITOT_INSTANT("allocate on GPU", bytes, device, allocated);
}

void NoteFreed(Memory* memory, int64_t taken_bytes, int64_t said_bytes, int64_t now) noexcept {
  memory->allocated.Add(-taken_bytes, now);
  const int64_t bytes = said_bytes;
  if (!IsRecorded(bytes)) return;
  const int32_t device = memory->device;
  const uint64_t allocated = memory->allocated.bytes();
  if (device == torch::kCpu)
    PITOT_INSTANT("free", bytes, allocated);
  else
    PITOT_INSTANT("free on GPU", bytes, device, allocated);
}

}  // namespace pitot::libtorch

PITOT_NAMESPACE_BEGIN
namespace torch {

bool GetMemoryUse(int32_t device, MemoryUse* use) noexcept {
  const libtorch::Memory* const memory = libtorch::FindMemory(device);
  if (memory == nullptr) {
    const bool is_watched =
        device >= 0 && device < libtorch::g_watched_devices.load() && !libtorch::AreWatchedByParent();
    if (is_watched) *use = {};
    return is_watched;
  }
  *use = {memory->allocated.bytes(), memory->allocated.most_bytes(),
          memory->reserved != nullptr ? memory->reserved->bytes() : 0, memory->retries.load(),
          memory->out_of_memory.load()};
  return true;
}

PeakMemory::PeakMemory(int32_t device) noexcept
    : memory_(libtorch::FindMemory(device)), begin_(libtorch::MemoryNow()), peak_(-1), device_(device) {
  if (memory_ != nullptr) peak_ = static_cast<libtorch::Memory*>(memory_)->allocated.BeginPeak();
}

PeakMemory::~PeakMemory() {
  if (peak_ >= 0) static_cast<libtorch::Memory*>(memory_)->allocated.EndPeak(peak_);
}

uint64_t PeakMemory::bytes() const noexcept {
  if (memory_ == nullptr) {
    // All its allocations, if any, came later.
    const libtorch::Memory* const memory = libtorch::FindMemory(device_);
    return memory != nullptr ? memory->allocated.most_bytes() : 0;
  }
  const libtorch::MemoryHistory& history = static_cast<libtorch::Memory*>(memory_)->allocated;
  return peak_ >= 0 ? history.PeakOf(peak_) : history.PeakBetween(begin_, libtorch::MemoryNow());
}

}  // namespace torch
PITOT_NAMESPACE_END
