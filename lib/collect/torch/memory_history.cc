// SPDX-License-Identifier: Apache-2.0
#include "collect/torch/memory_history.h"
#include "base/memory_order.h"

#include <algorithm>

namespace pitot::libtorch {
namespace {

using base::kRelaxed;

// Merges neighbours and keeps their maxima, because peaks of requests are looked up in them.
void Thin(std::vector<MemoryHistory::Sample>* samples, size_t most) {
  if (samples->size() <= most) return;
  const size_t of_one = (samples->size() + most - 1) / most;
  size_t count = 0;
  for (size_t i = 0; i < samples->size(); i += of_one) {
    MemoryHistory::Sample thin = (*samples)[i];
    for (size_t j = i; j < std::min(i + of_one, samples->size()); ++j)
      thin.bytes = std::max(thin.bytes, (*samples)[j].bytes);
    (*samples)[count++] = thin;
  }
  samples->resize(count);
  samples->shrink_to_fit();
}

template <class T> void Raise(std::atomic<T>* value, T to) noexcept {
  for (T was = value->load(kRelaxed); was < to && !value->compare_exchange_weak(was, to, kRelaxed);) {}
}

}  // namespace

// The lap counts from one: a word of zero belongs to none.
uint64_t MemoryHistory::Word(int64_t bucket, uint64_t bytes) noexcept {
  const uint64_t lap = static_cast<uint64_t>(bucket) / kBuckets + 1;
  return lap << kByteBits | std::min(bytes, (uint64_t{1} << kByteBits) - 1);
}

bool MemoryHistory::Read(const std::atomic<uint64_t>& word, int64_t bucket, uint64_t* bytes) noexcept {
  const uint64_t read = word.load(kRelaxed);
  if (read >> kByteBits != Word(bucket, 0) >> kByteBits) return false;
  *bytes = read & ((uint64_t{1} << kByteBits) - 1);
  return true;
}

// The level after this change. In one order with BeginPeak's operations: one of the two sees the other.
int64_t MemoryHistory::Raised(int64_t bytes) noexcept {
  if (bytes >= 0) return level_.fetch_add(bytes) + bytes;
  int64_t was = level_.load(kRelaxed);
  while (!level_.compare_exchange_weak(was, std::max(int64_t{0}, was + bytes))) {}
  return std::max(int64_t{0}, was + bytes);
}

void MemoryHistory::Add(int64_t bytes, int64_t now) noexcept {
  const int64_t level = Raised(bytes);
  const uint64_t highest = Clamp(bytes < 0 ? level - bytes : level);
  const int64_t bucket = BucketOf(now);
  const size_t at = static_cast<size_t>(bucket) % kBuckets;
  // A word of an earlier lap is less than any of this one.
  Raise(&buckets_[at].peak, Word(bucket, highest));
  // The last thread to change the level stores last, or finds it changed.
  for (int64_t stored = level, now_level;; stored = now_level) {
    buckets_[at].last.store(Word(bucket, Clamp(stored)), kRelaxed);
    now_level = level_.load(kRelaxed);
    if (now_level == stored) break;
  }
  Raise(&changed_bucket_, bucket);
  if (bytes >= 0) RaisePeaks(level);
}

void MemoryHistory::SetLevel(int64_t bytes) noexcept {
  level_.store(bytes);
  RaisePeaks(bytes);
}

void MemoryHistory::RaisePeaks(int64_t level) noexcept {
  Raise(&most_, Clamp(level));
  for (uint32_t followed = followed_.load(); followed != 0; followed &= followed - 1)
    Raise(&peaks_[__builtin_ctz(followed)], level);
}

std::vector<MemoryHistory::Sample> MemoryHistory::Between(int64_t begin, int64_t end, size_t most) const {
  std::vector<Sample> samples;
  const int64_t first = BucketOf(begin), last = BucketOf(end);
  uint64_t peak = 0, level = 0;
  // The level before.
  const int64_t oldest = std::max(int64_t{0}, last - static_cast<int64_t>(kBuckets) + 1);
  int64_t before = first - 1;
  while (before >= oldest && !Read(buckets_[static_cast<size_t>(before) % kBuckets].last, before, &level)) --before;
  if (before >= oldest)
    samples.push_back({begin, level});
  else if (changed_bucket_.load(kRelaxed) < first)
    samples.push_back({begin, level = bytes()});
  for (int64_t bucket = std::max(first, oldest); bucket <= last; ++bucket) {
    const size_t at = static_cast<size_t>(bucket) % kBuckets;
    if (!Read(buckets_[at].peak, bucket, &peak)) continue;
    const int64_t bucket_begin = begin_ + (bucket << kBucketBits);
    if (samples.empty() || samples.back().bytes != peak) samples.push_back({std::max(begin, bucket_begin), peak});
    if (!Read(buckets_[at].last, bucket, &level) || level >= peak) continue;
    samples.push_back({std::min(end, bucket_begin + (int64_t{1} << kBucketBits) - 1), level});
  }
  Thin(&samples, most);
  return samples;
}

uint64_t MemoryHistory::PeakBetween(int64_t begin, int64_t end) const noexcept {
  uint64_t peak = bytes(), read;
  const int64_t last = BucketOf(end);
  const int64_t oldest = std::max(int64_t{0}, last - static_cast<int64_t>(kBuckets) + 1);
  for (int64_t bucket = std::max(BucketOf(begin), oldest); bucket <= last; ++bucket) {
    if (Read(buckets_[static_cast<size_t>(bucket) % kBuckets].peak, bucket, &read)) peak = std::max(peak, read);
  }
  return peak;
}

int MemoryHistory::BeginPeak() noexcept {
  for (uint32_t taken = taken_.load(kRelaxed); taken != ~uint32_t{0};) {
    const int free = __builtin_ctz(~taken);
    if (!taken_.compare_exchange_weak(taken, taken | uint32_t{1} << free, std::memory_order_acquire, kRelaxed))
      continue;
    peaks_[free].store(level_.load(kRelaxed), kRelaxed);
    followed_.fetch_or(uint32_t{1} << free);
    Raise(&peaks_[free], level_.load());
    return free;
  }
  return -1;
}

void MemoryHistory::EndPeak(int peak) noexcept {
  followed_.fetch_and(~(uint32_t{1} << peak), kRelaxed);
  taken_.fetch_and(~(uint32_t{1} << peak), std::memory_order_release);
}

}  // namespace pitot::libtorch
