// SPDX-License-Identifier: Apache-2.0
//
// How much of one kind of memory is allocated, and how much was: the most and the last of each of many short buckets of
// time, 2^37 ticks in all. Written by whichever thread allocates, perhaps under an allocator's lock. Times are ticks of
// the recorder's clock (pitot/trace.h), of which 2^21 are 0.5 to 2 ms of a clock of 1 to 4 GHz. Buckets are counted
// from the history's beginning on, for 2^57 ticks: a year of 4 GHz.
#ifndef PITOT_LIB_COLLECT_TORCH_MEMORY_HISTORY_H_
#define PITOT_LIB_COLLECT_TORCH_MEMORY_HISTORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pitot::libtorch {

class MemoryHistory {
 public:
  static constexpr int kBucketBits = 21;  // of ticks
  static constexpr size_t kBuckets = size_t{1} << 16;
  static constexpr int kPeaks = 32;  // exact ones at a time

  struct Sample {
    int64_t at;
    uint64_t bytes;
  };

  explicit MemoryHistory(int64_t begin = 0) noexcept : begin_(begin) {}

  // So many bytes more, or less, but not less than none: what a host allocated before may be freed now. Threads: any.
  // Cost: 10 to 20 ns, 40 where two do nothing else; no lock, no allocation.
  void Add(int64_t bytes, int64_t now) noexcept;
  // What is allocated, as who should know says, whatever was added. Over time it shows with the next Add. Not beside an
  // Add.
  void SetLevel(int64_t bytes) noexcept;

  uint64_t bytes() const noexcept { return Clamp(level_.load(std::memory_order_relaxed)); }
  uint64_t most_bytes() const noexcept { return most_.load(std::memory_order_relaxed); }  // ever

  // What it was at the beginning and at each change, in order; a maximum lasts for the bucket that it fell into.
  // At most `most` of them: where there are more, of neighbours the largest, from when the first of them was on.
  // Errors: std::bad_alloc.
  std::vector<Sample> Between(int64_t begin, int64_t end, size_t most = SIZE_MAX) const;
  uint64_t PeakBetween(int64_t begin, int64_t end) const noexcept;

  // Follows the maximum from now on; what another thread's Add that has not returned adds may count, also after it was
  // taken away again. -1: too many are followed.
  int BeginPeak() noexcept;
  void EndPeak(int peak) noexcept;
  uint64_t PeakOf(int peak) const noexcept { return Clamp(peaks_[peak].load(std::memory_order_relaxed)); }

 private:
  static constexpr int kByteBits = 44;
  static uint64_t Clamp(int64_t bytes) noexcept { return bytes < 0 ? 0 : static_cast<uint64_t>(bytes); }
  int64_t BucketOf(int64_t at) const noexcept { return at < begin_ ? 0 : (at - begin_) >> kBucketBits; }
  int64_t Raised(int64_t bytes) noexcept;
  void RaisePeaks(int64_t level) noexcept;
  static uint64_t Word(int64_t bucket, uint64_t bytes) noexcept;
  // Of that bucket, if it is still there.
  static bool Read(const std::atomic<uint64_t>& word, int64_t bucket, uint64_t* bytes) noexcept;

  const int64_t begin_;
  // Apart by how often they are written: by every Add; by few, and read by all; by Adds while a peak is followed.
  alignas(64) std::atomic<int64_t> level_{0};
  alignas(64) std::atomic<uint64_t> most_{0};
  std::atomic<int64_t> changed_bucket_{-1};  // the last
  std::atomic<uint32_t> taken_{0};           // of peaks_, by bit
  std::atomic<uint32_t> followed_{0};        // of these, those that have a beginning
  alignas(64) std::atomic<int64_t> peaks_[kPeaks] = {};
  // The lap above the bytes; 0: never.
  struct Bucket {
    std::atomic<uint64_t> peak{0}, last{0};
  };
  alignas(64) Bucket buckets_[kBuckets] = {};
};

}  // namespace pitot::libtorch

#endif  // PITOT_LIB_COLLECT_TORCH_MEMORY_HISTORY_H_
