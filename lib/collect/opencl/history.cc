// SPDX-License-Identifier: Apache-2.0
#include "collect/opencl/history.h"

#include <algorithm>
#include <utility>

namespace pitot::opencl {

void History::Reserve(uint64_t memory_bytes) {
  const uint64_t capacity = memory_bytes / 2 / sizeof(Work);
  auto ring = std::make_unique_for_overwrite<Work[]>(capacity);
  auto kept = std::make_unique_for_overwrite<Work[]>(capacity);
  const base::MutexLock lock(&mutex_);
  ring_ = std::move(ring);
  capacity_ = capacity;
  written_ = 0;
  newest_overwritten_ns_ = 0;
  kept_ = std::move(kept);
  kept_count_ = 0;
}

void History::Add(const Work& work) noexcept {
  const base::MutexLock lock(&mutex_);
  if (capacity_ == 0) return;
  Work& place = ring_[written_ % capacity_];
  if (written_++ >= capacity_)
    newest_overwritten_ns_ = std::max(newest_overwritten_ns_, place.begin_ns + place.duration_ns);
  place = work;
}

void History::Keep(int64_t begin_ns) noexcept {
  const base::MutexLock lock(&mutex_);
  kept_count_ = 0;
  lost_until_ns_ = newest_overwritten_ns_ >= begin_ns ? newest_overwritten_ns_ : 0;
  for (uint64_t i = written_ > capacity_ ? written_ - capacity_ : 0; i < written_; ++i) {
    const Work& work = ring_[i % capacity_];
    if (work.begin_ns + work.duration_ns >= begin_ns) kept_[kept_count_++] = work;
  }
}

}  // namespace pitot::opencl
