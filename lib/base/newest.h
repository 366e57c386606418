// SPDX-License-Identifier: Apache-2.0
//
// The newest work of a collector, in a ring of fixed size, and a copy of a window of it. Several threads add; Keep and
// the reader of the copy never run at the same time.
#ifndef PITOT_LIB_BASE_NEWEST_H_
#define PITOT_LIB_BASE_NEWEST_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
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

  void Add(const Row& row) noexcept {
    const MutexLock lock(&mutex_);
    if (capacity_ == 0) return;
    Row& place = ring_[written_ % capacity_];
    if (written_++ >= capacity_)
      newest_overwritten_ns_ = std::max(newest_overwritten_ns_, place.begin_ns + place.duration_ns);
    place = row;
  }

  // Copies the rows ending at `begin_ns` or later.
  void Keep(int64_t begin_ns) noexcept {
    const MutexLock lock(&mutex_);
    kept_count_ = 0;
    lost_until_ns_ = newest_overwritten_ns_ >= begin_ns ? newest_overwritten_ns_ : 0;
    for (uint64_t i = written_ > capacity_ ? written_ - capacity_ : 0; i < written_; ++i) {
      const Row& row = ring_[i % capacity_];
      if (row.begin_ns + row.duration_ns >= begin_ns) kept_[kept_count_++] = row;
    }
  }

  // The copy, oldest first.
  std::span<const Row> kept() const { return {kept_.get(), kept_count_}; }
  // When the newest row without room ended, if that was in the window; 0: all are there.
  int64_t lost_until_ns() const { return lost_until_ns_; }

 private:
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
