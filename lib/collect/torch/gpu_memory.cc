// SPDX-License-Identifier: Apache-2.0
#include "collect/torch/gpu_memory.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/memory_order.h"
#include "pitot/trace.h"

namespace pitot::libtorch {
namespace {

using base::kRelaxed;

// Blocks have at least kUnitBytes. Small ones are rounded up to a multiple, unless the host has set another rounding
// (roundup_power2_divisions). Larger ones may have less than kSmallBytes unused. Neither is reported.
constexpr int64_t kUnitBytes = 512, kSmallBytes = 1 << 20;

int64_t RoundedUp(int64_t bytes) { return (bytes + kUnitBytes - 1) / kUnitBytes * kUnitBytes; }

}  // namespace

bool GpuAccount::Begin(int32_t device, const GpuNumbers& now, Read numbers) noexcept {
  memory_ = MakeMemory(device, now.allocated_bytes, now.reserved_bytes);
  read_ = numbers;
  numbers_ = now;
  seen_retries_ = now.retries;
  exact_bytes_ = kSmallBytes;
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

// Takes over the allocator's numbers, before the event. `being_freed`: bytes already missing in these numbers.
void GpuAccount::Align(int64_t being_freed, Look look, int64_t now) noexcept {
  const int64_t bucket = now >> MemoryHistory::kBucketBits;
  if (bucket == aligned_bucket_ && last_.address == 0 && !is_rough_ && look == Look::kOnceAMoment) return;
  const Block last = std::exchange(last_, {});
  const bool is_certain = !is_rough_ && look != Look::kUnknownIsFreed;
  is_rough_ = !ReadNumbers();
  if (is_rough_) return;
  const int64_t level = numbers_.allocated_bytes + being_freed;
  const int64_t more = level - static_cast<int64_t>(memory_->allocated.bytes());
  // The difference belongs to this block alone: the numbers were read before it was given.
  if (is_certain && last.address != 0) PlaceOf(last.address) = {last.address, last.bytes + more};
  // The difference belongs to small blocks alone: the host has another rounding.
  if (is_certain && last.address == 0 && more != 0 && exact_bytes_ != 0) {
    exact_bytes_ = 0;
    std::fill(std::begin(blocks_), std::end(blocks_), Block());
  }
  is_assumed_ = false;
  aligned_bucket_ = bucket;
  memory_->allocated.SetLevel(level);
  if (memory_->reserved->bytes() != static_cast<uint64_t>(numbers_.reserved_bytes)) {
    memory_->reserved->SetLevel(numbers_.reserved_bytes);
    memory_->reserved->Add(0, now);
  }
  TakeRetries(numbers_.retries);
}

void GpuAccount::Note(GpuEvent event, int64_t bytes, uint64_t address, int64_t now) noexcept {
  const int64_t asked = RoundedUp(bytes);
  switch (event) {
    case GpuEvent::kAllocated:
      Align(0, bytes > exact_bytes_ && is_assumed_ ? Look::kNow : Look::kOnceAMoment, now);
      if (bytes > exact_bytes_)
        PlaceOf(address) = {}, last_ = {address, asked};
      else
        is_assumed_ = true;
      return NoteAllocated(memory_, asked, now);
    case GpuEvent::kFreed: {
      Block& block = PlaceOf(address);
      const bool is_small = bytes <= exact_bytes_;
      const bool is_known = !is_small && block.address == address;
      const int64_t given = is_known ? std::exchange(block, {}).bytes : asked;
      Align(given, is_known || is_small ? Look::kOnceAMoment : Look::kUnknownIsFreed, now);
      is_assumed_ = is_assumed_ || is_small;
      return NoteFreed(memory_, given, asked, now);
    }
    default:
      return NoteReserved(event, bytes, address, now);
  }
}

// The driver gave or took memory, or refused.
void GpuAccount::NoteReserved(GpuEvent event, int64_t bytes, uint64_t address, int64_t now) noexcept {
  const int32_t device = memory_->device;
  ReadNumbers();
  const bool is_retried = event != GpuEvent::kReleased && TakeRetries(numbers_.retries);
  if (event != GpuEvent::kOutOfMemory) memory_->reserved->Add(event == GpuEvent::kReserved ? bytes : -bytes, now);
  const uint64_t reserved = memory_->reserved->bytes(), allocated = memory_->allocated.bytes();
  const int64_t inactive_split = numbers_.inactive_split_bytes;
  if (event == GpuEvent::kOutOfMemory) {
    memory_->out_of_memory.fetch_add(1, kRelaxed);
    const uint64_t free_bytes = address;
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
