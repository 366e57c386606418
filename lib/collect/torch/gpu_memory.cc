// SPDX-License-Identifier: Apache-2.0
#include "collect/torch/gpu_memory.h"

#include "pitot/trace.h"

namespace pitot::libtorch {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// Blocks are of so many bytes at least, and small ones are rounded up to a multiple; of larger ones less than so many
// bytes may stay unused, which is not told.
constexpr int64_t kUnitBytes = 512, kSmallBytes = 1 << 20;

int64_t RoundedUp(int64_t bytes) { return (bytes + kUnitBytes - 1) / kUnitBytes * kUnitBytes; }

}  // namespace

bool GpuAccount::Begin(int32_t device, const GpuNumbers& now, Read numbers) noexcept {
  memory_ = MakeMemory(device, now.allocated_bytes, now.reserved_bytes);
  read_ = numbers;
  numbers_ = now;
  seen_retries_ = now.retries;
  return memory_ != nullptr;
}

bool GpuAccount::TakeRetries(int64_t retries) noexcept {
  const int64_t more = retries < seen_retries_ ? retries : retries - seen_retries_;
  seen_retries_ = retries;
  memory_->retries.fetch_add(static_cast<uint64_t>(more), kRelaxed);
  return more != 0;
}

bool GpuAccount::ReadNumbers() noexcept {
  try {
    numbers_ = read_(memory_->device);
    return true;
  } catch (...) {
    return false;
  }
}

// Before the event. `being_freed`: what the allocator's numbers have lost already.
void GpuAccount::Align(int64_t being_freed, bool is_due) noexcept {
  const int64_t bucket = MemoryNow() >> MemoryHistory::kBucketBits;
  if (bucket == aligned_bucket_ && !is_rough_ && !is_due) return;
  if (!ReadNumbers()) return;
  aligned_bucket_ = bucket;
  is_rough_ = false;
  memory_->allocated.SetLevel(numbers_.allocated_bytes + being_freed);
  if (memory_->reserved->bytes() != static_cast<uint64_t>(numbers_.reserved_bytes)) {
    memory_->reserved->SetLevel(numbers_.reserved_bytes);
    memory_->reserved->Add(0, MemoryNow());
  }
  TakeRetries(numbers_.retries);
}

void GpuAccount::Note(GpuEvent event, int64_t bytes, uint64_t free_bytes) noexcept {
  const int32_t device = memory_->device;
  const bool is_large = bytes > kSmallBytes;
  switch (event) {
    case GpuEvent::kAllocated:
      Align(0, false);
      is_rough_ = is_large;
      return NoteAllocated(memory_, RoundedUp(bytes));
    case GpuEvent::kFreed:
      Align(RoundedUp(bytes), is_large);
      return NoteFreed(memory_, RoundedUp(bytes));
    default:
      break;
  }
  ReadNumbers();
  const bool is_retried = event != GpuEvent::kReleased && TakeRetries(numbers_.retries);
  if (event != GpuEvent::kOutOfMemory)
    memory_->reserved->Add(event == GpuEvent::kReserved ? bytes : -bytes, MemoryNow());
  const uint64_t reserved = memory_->reserved->bytes(), allocated = memory_->allocated.bytes();
  const int64_t inactive_split = numbers_.inactive_split_bytes;
  if (event == GpuEvent::kOutOfMemory) {
    memory_->out_of_memory.fetch_add(1, kRelaxed);
    PITOT_INSTANT("out of GPU memory", bytes, device, free_bytes, reserved, allocated, inactive_split);
  } else if (event == GpuEvent::kReleased) {
    PITOT_INSTANT("cudaFree of cached memory", bytes, device, reserved, allocated, inactive_split);
  } else if (is_retried) {
    PITOT_INSTANT("cudaMalloc after cached memory was freed", bytes, device, reserved, allocated, inactive_split);
  } else {
    PITOT_INSTANT("cudaMalloc", bytes, device, reserved, allocated, inactive_split);
  }
}

}  // namespace pitot::libtorch
