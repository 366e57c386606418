// SPDX-License-Identifier: Apache-2.0
//
// The allocated bytes of one kind of memory over time: the maximum and the last value of each of many short buckets,
// 2^37 ticks in all. Written by any allocating thread, perhaps under an allocator's lock. Times are ticks of the
// recorder's clock (pitot/trace.h); 2^21 ticks are 0.5 to 2 ms of a clock of 1 to 4 GHz. Buckets are counted from the
// history's beginning, for 2^57 ticks: a year at 4 GHz.
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
  static constexpr int kPeaks = 32;  // exact peaks at a time

  struct Sample {
    int64_t at;
    uint64_t bytes;
  };

  explicit MemoryHistory(int64_t begin = 0) noexcept : begin_(begin) {}

  // Adds bytes, or takes them away, but never below zero: a host may free memory allocated before. Threads: any. Cost:
  // 10 to 20 ns, 40 if two threads do nothing else; no lock, no allocation.
  void Add(int64_t bytes, int64_t now) noexcept;
  // Sets the allocated bytes to an authoritative number, whatever was added. Over time it shows with the next Add. Not
  // at the same time as an Add.
  void SetLevel(int64_t bytes) noexcept;

  uint64_t bytes() const noexcept { return Clamp(level_.load(std::memory_order_relaxed)); }
  uint64_t most_bytes() const noexcept { return most_.load(std::memory_order_relaxed); }  // ever

  // The bytes at the beginning and at each change, in order; a maximum lasts for its whole bucket. If there are more
  // than `most`, neighbours become one sample: the largest, at the time of the first. Errors: std::bad_alloc.
  std::vector<Sample> Between(int64_t begin, int64_t end, size_t most = SIZE_MAX) const;
  uint64_t PeakBetween(int64_t begin, int64_t end) const noexcept;

  // Follows the maximum from now on. It may include bytes of another thread's unfinished Add, even after they were
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
  // Reads the bytes of this bucket; false if the word is another's.
  static bool Read(const std::atomic<uint64_t>& word, int64_t bucket, uint64_t* bytes) noexcept;

  const int64_t begin_;
  // Apart by writer: every Add; few, and read by all; Adds while a peak is followed.
  alignas(64) std::atomic<int64_t> level_{0};
  alignas(64) std::atomic<uint64_t> most_{0};
  std::atomic<int64_t> changed_bucket_{-1};  // the last one
  std::atomic<uint32_t> taken_{0};           // of peaks_, by bit
  std::atomic<uint32_t> followed_{0};        // of these, those with a beginning
  alignas(64) std::atomic<int64_t> peaks_[kPeaks] = {};
  // Words: the lap above the bytes; 0: never written.
  struct Bucket {
    std::atomic<uint64_t> peak{0}, last{0};
  };
  alignas(64) Bucket buckets_[kBuckets] = {};
};

}  // namespace pitot::libtorch

#endif  // PITOT_LIB_COLLECT_TORCH_MEMORY_HISTORY_H_
