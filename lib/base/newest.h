// SPDX-License-Identifier: Apache-2.0
//
// The newest work of a collector, in a ring of fixed size, and a copy of a window of it. Collectors say for each of
// their devices until when rows are missing. Several threads add; Keep and the reader of the copy never run at the same
// time.
#ifndef PITOT_LIB_BASE_NEWEST_H_
#define PITOT_LIB_BASE_NEWEST_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/mutex.h"

namespace pitot::base {

// `Row` has begin_ns and duration_ns, and no initialisers: memory stays untouched until it is written. If kDevices is
// not 1, losses are told apart by Row::device, which is below kDevices.
template <class Row, uint32_t kDevices = 1> class Newest {
  static_assert(std::is_trivially_default_constructible_v<Row>);

 public:
  // Without memory; Add does nothing.
  Newest() = default;
  // Throws bad_alloc.
  explicit Newest(uint64_t memory_bytes) { Reserve(memory_bytes); }

  // Takes memory, half of it for the copy, and forgets all rows. Throws bad_alloc, and is as before then.
  void Reserve(uint64_t memory_bytes) {
    const uint64_t capacity = memory_bytes / 2 / sizeof(Row);
    auto ring = std::make_unique_for_overwrite<Row[]>(capacity);
    auto kept = std::make_unique_for_overwrite<Row[]>(capacity);
    const MutexLock lock(&mutex_);
    ring_ = std::move(ring);
    capacity_ = capacity;
    written_ = 0;
    overwritten_until_ns_ = {};
    kept_ = std::move(kept);
    kept_count_ = 0;
  }

  // Takes the place of the oldest row if there is no other.
  void Add(const Row& row) noexcept {
    adding_.fetch_add(1, std::memory_order_relaxed);
    const MutexLock lock(&mutex_);
    adding_.fetch_sub(1, std::memory_order_relaxed);
    if (capacity_ == 0) return;
    Row& place = ring_[written_ % capacity_];
    if (written_++ >= capacity_) {
      int64_t& until_ns = overwritten_until_ns_[DeviceOf(place)];
      until_ns = std::max(until_ns, place.begin_ns + place.duration_ns);
    }
    place = row;
  }

  // Copies the rows ending at `begin_ns` or later. After every 64 rows it calls `give_way()` without the lock. Rows
  // that were overwritten before they were copied are in lost_until_ns, whenever that happened. False: it happened
  // meanwhile.
  template <class GiveWay> bool Keep(int64_t begin_ns, const GiveWay& give_way) noexcept {
    constexpr uint64_t kRowsAtOnce = 64;
    MutexLock lock(&mutex_);
    kept_count_ = 0;
    lost_until_ns_ = overwritten_until_ns_;
    bool is_whole = true;
    const uint64_t end = written_;
    const auto oldest = [this]() PITOT_REQUIRES(mutex_) { return written_ > capacity_ ? written_ - capacity_ : 0; };
    for (uint64_t next = oldest(); next < end;) {
      for (const uint64_t stop = std::min(end, next + kRowsAtOnce); next < stop; ++next) {
        const Row& row = ring_[next % capacity_];
        if (row.begin_ns + row.duration_ns >= begin_ns) kept_[kept_count_++] = row;
      }
      lock.Unlock();
      give_way();
      lock.Lock();
      if (next >= end || oldest() <= next) continue;
      is_whole = false;
      next = oldest();
      lost_until_ns_ = overwritten_until_ns_;
    }
    for (int64_t& until_ns : lost_until_ns_)
      if (until_ns < begin_ns) until_ns = 0;
    return is_whole;
  }
  // Gives way to threads that add.
  bool Keep(int64_t begin_ns) noexcept {
    constexpr int kMostYields = 16;
    return Keep(begin_ns, [this] {
      for (int i = 0; i < kMostYields && adding_.load(std::memory_order_relaxed) != 0; ++i) std::this_thread::yield();
    });
  }

  // The copy, oldest first.
  std::span<const Row> kept() const { return {kept_.get(), kept_count_}; }
  // When the newest row of the device without room ended, if that was in the window; 0: all are there.
  int64_t lost_until_ns(uint32_t device = 0) const { return lost_until_ns_[device]; }

 private:
  static uint32_t DeviceOf(const Row& row) noexcept {
    if constexpr (kDevices == 1)
      return 0;
    else
      return row.device;
  }

  std::atomic<uint32_t> adding_{0};  // threads that wait for the mutex, for Keep to give way
  Mutex mutex_;
  uint64_t capacity_ PITOT_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<Row[]> ring_ PITOT_GUARDED_BY(mutex_);
  uint64_t written_ PITOT_GUARDED_BY(mutex_) = 0;  // since Reserve
  // The newest end of an overwritten row, by device.
  std::array<int64_t, kDevices> overwritten_until_ns_ PITOT_GUARDED_BY(mutex_){};

  std::unique_ptr<Row[]> kept_;
  uint64_t kept_count_ = 0;
  std::array<int64_t, kDevices> lost_until_ns_{};
};

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_NEWEST_H_
