// SPDX-License-Identifier: Apache-2.0
//
// Quantiles of latencies per (route, size bucket) in bounded memory, taught by many threads without a lock: a pool of
// log-linear histograms of relaxed counters. A cell is claimed by the first request of its kind; when the pool is used
// up, all further size buckets of a route share one.
#ifndef PITOT_LIB_TRIGGER_QUANTILE_CELLS_H_
#define PITOT_LIB_TRIGGER_QUANTILE_CELLS_H_

#include <stdint.h>
#include <stdlib.h>

#include <atomic>

#include "trigger/firing_rules.h"

namespace pitot::trigger {

// Buckets of one width within each power of two, at most 2.8 % of the value: from 1 us (or less) to 73 minutes (or
// more).
inline constexpr uint32_t kFirstOctave = 10;
inline constexpr uint32_t kOctaves = 32;
inline constexpr uint32_t kBucketsPerOctave = 36;

inline uint32_t BucketOf(uint64_t ns) noexcept {
  if (ns < uint64_t{1} << kFirstOctave) return 0;
  const uint32_t octave = 63 - static_cast<uint32_t>(__builtin_clzll(ns));
  if (octave >= kFirstOctave + kOctaves) return kOctaves * kBucketsPerOctave - 1;
  const uint64_t above = ns - (uint64_t{1} << octave);  // below 2^41: times 36 fits
  return (octave - kFirstOctave) * kBucketsPerOctave + static_cast<uint32_t>(above * kBucketsPerOctave >> octave);
}
// The least value of a bucket, or of the one after the last.
inline uint64_t BucketBeginNs(uint32_t bucket) noexcept {
  const uint32_t octave = kFirstOctave + bucket / kBucketsPerOctave;
  const uint64_t base = uint64_t{1} << octave;
  return base + (bucket % kBucketsPerOctave * base + kBucketsPerOctave - 1) / kBucketsPerOctave;
}

class QuantileCells {
 public:
  // Plain words: the pool is zeroed memory that stays untouched, and so takes no room, until a cell is used.
  struct Cell {
    uint64_t threshold_ns;  // 0: not known yet
    uint32_t threshold_count;
    uint32_t finishes;
    uint32_t octaves;  // with counts, a bit each
    uint32_t is_computing;
    uint32_t counts[kOctaves * kBucketsPerOctave];
  };

  // For one route each size has a cell of its own; all routes share a pool of 256.
  QuantileCells(double quantile, uint32_t memory, uint32_t warm_up, bool one_route) noexcept
      : quantile_(quantile),
        memory_(memory),
        warm_up_(warm_up == 0 ? 1 : warm_up),
        shared_count_(one_route ? 1 : kMaxRoutes),
        cell_count_(one_route ? 1 + kMaxSizeBuckets : 256),
        cells_(static_cast<Cell*>(calloc(cell_count_, sizeof(Cell)))),
        next_cell_(shared_count_) {}
  ~QuantileCells() { free(cells_); }
  QuantileCells(const QuantileCells&) = delete;
  QuantileCells& operator=(const QuantileCells&) = delete;

  bool is_allocated() const noexcept { return cells_ != nullptr; }

  // The cell of requests of this route and size; null while another thread claims it.
  Cell* Find(uint32_t route_index, uint32_t size_bucket) noexcept {
    route_index %= kMaxRoutes, size_bucket %= kMaxSizeBuckets;
    std::atomic<uint16_t>& entry = entries_[route_index * kMaxSizeBuckets + size_bucket];
    const uint16_t cell = entry.load(std::memory_order_acquire);
    if (__builtin_expect(cell != kUnclaimed, 1)) return cell == kClaiming ? nullptr : &cells_[cell - 1];
    return Claim(route_index, entry);
  }

  // False if it stands for several size buckets of its route.
  bool IsOfOneSize(const Cell* cell) const noexcept { return cell - cells_ >= shared_count_; }

  // The quantile, ns; 0 while it is unknown. `count` becomes the number of requests behind it.
  uint64_t Threshold(Cell* cell, uint32_t* count) noexcept {
    *count = Atomic(cell->threshold_count).load(std::memory_order_relaxed);
    return Atomic(cell->threshold_ns).load(std::memory_order_relaxed);
  }

  // Adds a latency. Cost: two relaxed additions; of each 64 calls one computes the quantile, one in `memory` halves the
  // counts.
  void Teach(Cell* cell, uint64_t ns) noexcept {
    const uint32_t bucket = BucketOf(ns), octave_bit = 1u << bucket / kBucketsPerOctave;
    std::atomic_ref<uint32_t> octaves = Atomic(cell->octaves);
    if (__builtin_expect((octaves.load(std::memory_order_relaxed) & octave_bit) == 0, 0)) {
      octaves.fetch_or(octave_bit, std::memory_order_relaxed);
    }
    Atomic(cell->counts[bucket]).fetch_add(1, std::memory_order_relaxed);
    const uint32_t finishes = Atomic(cell->finishes).fetch_add(1, std::memory_order_relaxed) + 1;
    const bool is_due = finishes == warm_up_ || (finishes > warm_up_ && finishes % 64 == 0);
    const bool is_halving = finishes % memory_ == 0;
    if (__builtin_expect(is_due || is_halving, 0)) Update(cell, is_halving);
  }

 private:
  static constexpr uint16_t kUnclaimed = 0, kClaiming = 0xffff;

  template <class T> static std::atomic_ref<T> Atomic(T& word) noexcept { return std::atomic_ref<T>(word); }

  [[gnu::noinline]] Cell* Claim(uint32_t route_index, std::atomic<uint16_t>& entry) noexcept {
    uint16_t expected = kUnclaimed;
    if (!entry.compare_exchange_strong(expected, kClaiming, std::memory_order_acquire)) return nullptr;
    uint32_t cell = next_cell_.load(std::memory_order_relaxed);
    while (cell < cell_count_ && !next_cell_.compare_exchange_weak(cell, cell + 1, std::memory_order_relaxed)) {}
    if (cell >= cell_count_) cell = route_index % shared_count_;
    entry.store(static_cast<uint16_t>(cell + 1), std::memory_order_release);
    return &cells_[cell];
  }

  // Computes the quantile, in one thread at a time; a second one skips it.
  [[gnu::noinline]] void Update(Cell* cell, bool is_halving) noexcept {
    std::atomic_ref<uint32_t> is_computing = Atomic(cell->is_computing);
    if (is_computing.exchange(1, std::memory_order_acquire) != 0) return;
    const uint32_t octaves = Atomic(cell->octaves).load(std::memory_order_relaxed);
    uint64_t per_octave[kOctaves] = {}, count = 0;
    for (uint32_t rest = octaves; rest != 0; rest &= rest - 1) {
      const uint32_t octave = static_cast<uint32_t>(__builtin_ctz(rest));
      for (uint32_t i = 0; i < kBucketsPerOctave; ++i) {
        std::atomic_ref<uint32_t> bucket = Atomic(cell->counts[octave * kBucketsPerOctave + i]);
        uint32_t in_bucket = bucket.load(std::memory_order_relaxed);
        if (is_halving && in_bucket != 0) {
          const uint32_t forgotten = in_bucket - in_bucket / 2;  // others only add meanwhile
          bucket.fetch_sub(forgotten, std::memory_order_relaxed);
          in_bucket -= forgotten;
        }
        per_octave[octave] += in_bucket;
      }
      count += per_octave[octave];
    }
    if (count != 0 && Atomic(cell->finishes).load(std::memory_order_relaxed) >= warm_up_) {
      Atomic(cell->threshold_count).store(static_cast<uint32_t>(count), std::memory_order_relaxed);
      Atomic(cell->threshold_ns).store(Quantile(*cell, per_octave, count), std::memory_order_relaxed);
    }
    is_computing.store(0, std::memory_order_release);
  }

  // The end of the bucket with rank quantile * (count - 1): at most 2.8 % above the exact value, and never below it. So
  // requests of equal latency do not fire on one another.
  uint64_t Quantile(Cell& cell, const uint64_t* per_octave, uint64_t count) const noexcept {
    uint64_t rank = static_cast<uint64_t>(quantile_ * static_cast<double>(count - 1) + 0.5);
    uint32_t octave = 0;
    while (octave + 1 < kOctaves && rank >= per_octave[octave]) rank -= per_octave[octave++];
    for (uint32_t i = 0; i < kBucketsPerOctave; ++i) {
      const uint32_t bucket = octave * kBucketsPerOctave + i;
      const uint64_t in_bucket = Atomic(cell.counts[bucket]).load(std::memory_order_relaxed);
      if (rank < in_bucket) {
        return BucketBeginNs(bucket + 1) - 1;
      }
      rank -= in_bucket;
    }
    return BucketBeginNs((octave + 1) * kBucketsPerOctave);
  }

  const double quantile_;
  const uint32_t memory_, warm_up_, shared_count_, cell_count_;
  Cell* const cells_;
  std::atomic<uint32_t> next_cell_;
  std::atomic<uint16_t> entries_[kMaxRoutes * kMaxSizeBuckets] = {};
};

}  // namespace pitot::trigger

#endif  // PITOT_LIB_TRIGGER_QUANTILE_CELLS_H_
