// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/buffers.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/clock.h"

namespace pitot::cupti {
namespace {

void Count(std::atomic<uint64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

std::unique_ptr<BufferPool> BufferPool::Make(uint32_t count, uint32_t bytes) noexcept {
  const uint64_t size = uint64_t{count} * bytes;
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::unique_ptr<Slot[]> slots(new (std::nothrow) Slot[count]);
  std::unique_ptr<BufferPool> pool(new (std::nothrow)
                                       BufferPool(static_cast<uint8_t*>(memory), std::move(slots), count, bytes));
  if (pool == nullptr) {
    munmap(memory, size);
    return nullptr;
  }
  try {
    pool->quarantine_.reserve(uint64_t{count} * (kMostPlaces + 1));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  if (pool->slots_ == nullptr || !pool->free_.Reserve(count) || !pool->completed_.Reserve(count)) return nullptr;
  for (uint32_t i = 0; i < count; ++i) {
    pool->slots_[i].word.store(reinterpret_cast<uintptr_t>(pool->memory_ + uint64_t{i} * bytes),
                               std::memory_order_relaxed);
    pool->free_.Push(i);
  }
  return pool;
}

BufferPool::~BufferPool() {
  for (uint32_t i = 0; slots_ != nullptr && i < count_; ++i) {
    uint8_t* const memory = At(i);
    if (memory != nullptr && (memory < memory_ || memory >= memory_ + uint64_t{count_} * bytes_))
      munmap(memory, bytes_);
  }
  munmap(memory_, uint64_t{count_} * bytes_);
}

void BufferPool::Touch() noexcept {
  if (std::exchange(is_touched_, true)) return;
  // Changes nothing, because CUPTI may have some already, through callbacks of an earlier collector.
  for (uint64_t at = 0; at < uint64_t{count_} * bytes_; at += kPage)
    __atomic_fetch_or(memory_ + at, uint8_t{0}, __ATOMIC_RELAXED);
}

uint8_t* BufferPool::GiveOut(uint32_t index) noexcept {
  uint8_t* const memory = At(index);
  slots_[index].taken_ns.store(base::ClockNs(CLOCK_MONOTONIC), std::memory_order_relaxed);
  slots_[index].word.store(reinterpret_cast<uintptr_t>(memory) | EraBits() | kOut, std::memory_order_release);
  return memory;
}

BufferPool::Found BufferPool::Find(const uint8_t* buffer) const noexcept {
  const auto at = [&](uint32_t index) -> Found {
    const uintptr_t word = slots_[index].word.load(std::memory_order_relaxed);
    return MemoryOf(word) == buffer ? Found{index, word} : Found{};
  };
  const auto offset = static_cast<uint64_t>(buffer - memory_);
  if (buffer >= memory_ && offset < uint64_t{count_} * bytes_) {
    if (const Found found = at(static_cast<uint32_t>(offset / bytes_))) return found;
  }
  // Any slot's memory may have taken the place of another's written-off memory.
  if (written_off_.load(std::memory_order_relaxed) == 0) return {};
  for (uint32_t index = 0; index < count_; ++index) {
    if (const Found found = at(index)) return found;
  }
  return {};
}

bool BufferPool::Complete(const Found& found, uint64_t valid) noexcept {
  uintptr_t word = found.word;
  const uintptr_t home = reinterpret_cast<uintptr_t>(MemoryOf(word));
  if ((word & kOut) == 0 || !slots_[found.index].word.compare_exchange_strong(word, home, std::memory_order_relaxed)) {
    Count(foreign_);
    return false;
  }
  Count(returned_);
  slots_[found.index].valid = std::min<uint64_t>(valid, bytes_);
  completed_.Push(found.index);
  return true;
}

// Memory for a written-off buffer; null: all possible places are in use or in quarantine.
uint8_t* BufferPool::NewPlace(int64_t now_ns) noexcept {
  if (!quarantine_.empty() && now_ns - quarantine_.front().since_ns >= kQuarantineNs) {
    uint8_t* const place = quarantine_.front().memory;
    quarantine_.erase(quarantine_.begin());
    std::memset(place, 0, bytes_);
    return place;
  }
  if (places_ >= kMostPlaces * count_) return nullptr;
  void* const place = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  ++places_;
  return static_cast<uint8_t*>(place);
}

uint32_t BufferPool::WriteOff(int64_t now_ns) noexcept {
  uint32_t count = 0, unplaced = 0;
  for (uint32_t index = 0; index < count_; ++index) {
    std::atomic<uintptr_t>& slot = slots_[index].word;
    uintptr_t word = slot.load(std::memory_order_acquire);
    if ((word & kOut) == 0 || (word & (kPage - 2)) == EraBits()) continue;
    uint8_t* const place = NewPlace(now_ns);
    if (place == nullptr) {
      ++unplaced;
      continue;
    }
    if (!slot.compare_exchange_strong(word, reinterpret_cast<uintptr_t>(place), std::memory_order_relaxed)) {
      quarantine_.insert(quarantine_.begin(), {place, now_ns - kQuarantineNs});  // the buffer came back at this moment
      continue;
    }
    quarantine_.push_back({MemoryOf(word), now_ns});
    Count(written_off_);
    ++count;
    Free(index);
  }
  unplaced_.store(unplaced, std::memory_order_relaxed);
  return count;
}

void BufferPool::Zero(uint32_t index) noexcept {
  // CUPTI writes no further than it reports.
  std::memset(At(index), 0, slots_[index].valid);
}

// Frees a buffer. Whoever sees it free also sees the outcome of its contents.
void BufferPool::Free(uint32_t index) noexcept {
  slots_[index].taken_ns.store(0, std::memory_order_release);
  free_.Push(index);
}

int64_t BufferPool::OldestUnreadNs() const noexcept {
  int64_t oldest_ns = INT64_MAX;
  for (uint32_t index = 0; index < count_; ++index) {
    const int64_t taken_ns = slots_[index].taken_ns.load(std::memory_order_acquire);
    const uintptr_t word = slots_[index].word.load(std::memory_order_relaxed);
    const bool is_of_former_era = (word & kOut) != 0 && (word & (kPage - 2)) != EraBits();
    if (taken_ns != 0 && !is_of_former_era) oldest_ns = std::min(oldest_ns, taken_ns);
  }
  return oldest_ns;
}

BufferCounts BufferPool::counts() const noexcept {
  const auto get = [](const std::atomic<uint64_t>& counter) { return counter.load(std::memory_order_relaxed); };
  return {get(requested_), get(returned_),    get(overwritten_), get(refused_),
          get(foreign_),   get(written_off_), get(unplaced_)};
}

}  // namespace pitot::cupti
