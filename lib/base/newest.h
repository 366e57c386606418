// SPDX-License-Identifier: Apache-2.0
//
// The newest work of a collector, in a ring of fixed size, and a copy of a window of it. Several threads add; Keep and
// the reader of the copy never run at the same time.
#ifndef PITOT_LIB_BASE_NEWEST_H_
#define PITOT_LIB_BASE_NEWEST_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/mutex.h"

namespace pitot::base {

// `Row` has begin_ns and duration_ns, and no initialisers: memory stays untouched until it is written.
template <class Row> class Newest {
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
    newest_overwritten_ns_ = 0;
    kept_ = std::move(kept);
    kept_count_ = 0;
  }

  // Returns whether it took the place of the oldest row, and that row in `*gone` (null: not wanted).
  bool Add(const Row& row, Row* gone = nullptr) noexcept {
    adding_.fetch_add(1, std::memory_order_relaxed);
    const MutexLock lock(&mutex_);
    adding_.fetch_sub(1, std::memory_order_relaxed);
    if (capacity_ == 0) return false;
    Row& place = ring_[written_ % capacity_];
    const bool is_full = written_++ >= capacity_;
    if (is_full) {
      newest_overwritten_ns_ = std::max(newest_overwritten_ns_, place.begin_ns + place.duration_ns);
      if (gone != nullptr) *gone = place;
    }
    place = row;
    return is_full;
  }

  // Copies the rows ending at `begin_ns` or later. Gives way to threads that add after every 64 rows. False: some that
  // had not been copied were overwritten meanwhile.
  bool Keep(int64_t begin_ns) noexcept {
    constexpr uint64_t kRowsAtOnce = 64;
    constexpr int kMostYields = 16;
    MutexLock lock(&mutex_);
    kept_count_ = 0;
    int64_t lost_until_ns = newest_overwritten_ns_;
    bool is_whole = true;
    const uint64_t end = written_;
    const auto oldest = [this]() PITOT_REQUIRES(mutex_) { return written_ > capacity_ ? written_ - capacity_ : 0; };
    for (uint64_t next = oldest(); next < end;) {
      for (const uint64_t stop = std::min(end, next + kRowsAtOnce); next < stop; ++next) {
        const Row& row = ring_[next % capacity_];
        if (row.begin_ns + row.duration_ns >= begin_ns) kept_[kept_count_++] = row;
      }
      lock.Unlock();
      for (int i = 0; i < kMostYields && adding_.load(std::memory_order_relaxed) != 0; ++i) std::this_thread::yield();
      lock.Lock();
      if (next >= end || oldest() <= next) continue;
      is_whole = false;
      next = oldest();
      lost_until_ns = newest_overwritten_ns_;
    }
    lost_until_ns_ = lost_until_ns >= begin_ns ? lost_until_ns : 0;
    return is_whole;
  }

  // The copy, oldest first.
  std::span<const Row> kept() const { return {kept_.get(), kept_count_}; }
  // When the newest row without room ended, if that was in the window; 0: all are there.
  int64_t lost_until_ns() const { return lost_until_ns_; }

 private:
  std::atomic<uint32_t> adding_{0};  // threads that wait for the mutex, for Keep to give way
  Mutex mutex_;
  uint64_t capacity_ PITOT_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<Row[]> ring_ PITOT_GUARDED_BY(mutex_);
  uint64_t written_ PITOT_GUARDED_BY(mutex_) = 0;               // since Reserve
  int64_t newest_overwritten_ns_ PITOT_GUARDED_BY(mutex_) = 0;  // when it ended

  std::unique_ptr<Row[]> kept_;
  uint64_t kept_count_ = 0;
  int64_t lost_until_ns_ = 0;
};

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_NEWEST_H_
