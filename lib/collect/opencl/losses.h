// SPDX-License-Identifier: Apache-2.0
//
// Commands that were not recorded, by reason, device and time. Any thread adds without a lock, because
// enqueuing does. Each entry carries the number of its session, so a late thread adds nothing to the next.
#ifndef PITOT_LIB_COLLECT_OPENCL_LOSSES_H_
#define PITOT_LIB_COLLECT_OPENCL_LOSSES_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "collect/opencl/queues.h"

namespace pitot::opencl {

enum class Lost : uint8_t {
  kNoQueue,  // its queue has no place
  kNoSlot,   // too many commands were in flight
  kNoTimes,  // the driver did not say when it ran
  kFailed,   // it failed on the device
};
inline constexpr uint32_t kLostReasons = 4;

class Losses {
 public:
  static constexpr int kShift = 28;          // a bucket is 2^28 ns, 268 ms
  static constexpr uint32_t kBuckets = 256;  // for 68 s

  // Adds a command, enqueued and seen between `begin_ns` and `end_ns`. `device`: kMaxDevices if unknown. Sessions are
  // numbered from 1 on. Threads: any. Cost: an exchange for each bucket.
  void Add(Lost why, uint8_t device, int64_t begin_ns, int64_t end_ns, uint32_t session) noexcept {
    const auto reason = static_cast<uint32_t>(why);
    Line& line = lines_[reason][device];
    const uint64_t last = Bucket(end_ns);
    const uint64_t oldest = last < kBuckets ? 0 : last - kBuckets + 1;
    if (Bucket(begin_ns) < oldest) Forget(&line, oldest - 1, session);
    const uint64_t first = std::max(std::min(Bucket(begin_ns), last), oldest);
    for (uint64_t bucket = first; bucket <= last; ++bucket) Mark(&line, bucket, bucket == last ? 1 : 0, session);
    Raise(&totals_[reason], session, [](uint64_t count) { return count + 1; });
  }

  // Commands of the session. Threads: any.
  uint64_t Total(Lost why, uint32_t session) const noexcept {
    const uint64_t total = totals_[static_cast<uint32_t>(why)].load(std::memory_order_relaxed);
    return total >> kValueBits == session ? total & kMostValue : 0;
  }

  // Calls `function(why, device, begin_ns, end_ns, records)` for each stretch of buckets with losses of the session,
  // cut to the time from `begin_ns` to `end_ns`. Records 0: the number is unknown. Losses whose buckets were used again
  // are one stretch from time 0 on. Threads: any. Cost: a load for each bucket.
  template <class Function>
  void ForEach(int64_t begin_ns, int64_t end_ns, uint32_t session, const Function& function) const {
    for (uint32_t reason = 0; reason < kLostReasons; ++reason) {
      for (uint8_t device = 0; device <= kMaxDevices; ++device) {
        ForEachOf(lines_[reason][device], begin_ns, end_ns, session, [&](int64_t begin, int64_t end, uint64_t records) {
          function(static_cast<Lost>(reason), device, begin, end, records);
        });
      }
    }
  }

 private:
  // A session's number, and a value of the session.
  static constexpr int kValueBits = 40;
  static constexpr uint64_t kMostValue = (uint64_t{1} << kValueBits) - 1;
  // A cell is a session's number (24 bits), the round of the buckets (24) and the number of commands (16).
  static constexpr int kCountBits = 16, kRoundBits = 24;
  static constexpr uint64_t kMostCount = (uint64_t{1} << kCountBits) - 1, kMostRound = (1 << kRoundBits) - 1;

  struct Line {
    std::array<std::atomic<uint64_t>, kBuckets> cells{};
    std::atomic<uint64_t> forgotten{0};  // a session's number, and the bucket after the newest without a cell
  };

  static uint64_t Bucket(int64_t ns) noexcept { return static_cast<uint64_t>(std::max<int64_t>(ns, 0)) >> kShift; }
  static int64_t BeginNs(uint64_t bucket) noexcept { return static_cast<int64_t>(bucket << kShift); }
  static uint64_t KeyOf(uint64_t bucket, uint32_t session) noexcept {
    return uint64_t{session} << kRoundBits | (bucket / kBuckets & kMostRound);
  }

  static uint32_t SessionOf(uint64_t cell) noexcept { return static_cast<uint32_t>(cell >> kCountBits >> kRoundBits); }
  static uint64_t BucketOf(uint64_t cell, uint64_t place) noexcept {
    return (cell >> kCountBits & kMostRound) * kBuckets + place;
  }

  template <class Change>
  static void Raise(std::atomic<uint64_t>* to, uint32_t session, const Change& change) noexcept {
    uint64_t known = to->load(std::memory_order_relaxed), value = 0;
    do {
      if (known >> kValueBits > session) return;  // its session is over
      const uint64_t before = known >> kValueBits == session ? known & kMostValue : 0;
      value = uint64_t{session} << kValueBits | std::min(change(before), kMostValue);
    } while (!to->compare_exchange_weak(known, value, std::memory_order_relaxed));
  }
  static void Forget(Line* line, uint64_t bucket, uint32_t session) noexcept {
    Raise(&line->forgotten, session, [bucket](uint64_t until) { return std::max(until, bucket + 1); });
  }

  static void Mark(Line* line, uint64_t bucket, uint64_t count, uint32_t session) noexcept {
    std::atomic<uint64_t>& cell = line->cells[bucket % kBuckets];
    const uint64_t key = KeyOf(bucket, session);
    uint64_t known = cell.load(std::memory_order_relaxed), value = 0;
    do {
      const bool is_of_session = SessionOf(known) == session;
      if (known >> kCountBits > key) {
        if (is_of_session) Forget(line, bucket, session);  // newer losses have its place
        return;
      }
      const bool is_same = known >> kCountBits == key;
      // Before the cell changes: a reader that finds it changed then finds this.
      if (is_of_session && !is_same) Forget(line, BucketOf(known, bucket % kBuckets), session);
      value = key << kCountBits | std::min((is_same ? known & kMostCount : 0) + count, kMostCount);
    } while (!cell.compare_exchange_weak(known, value, std::memory_order_release, std::memory_order_relaxed));
  }

  template <class Function> static void ForEachOf(const Line& line, int64_t begin_ns, int64_t end_ns, uint32_t session,
                                                  const Function& function) {
    struct Marked {
      uint64_t bucket, records;
    };
    std::array<Marked, kBuckets> all;
    uint32_t count = 0;
    for (uint32_t i = 0; i < kBuckets; ++i) {
      const uint64_t cell = line.cells[i].load(std::memory_order_acquire);
      if (SessionOf(cell) == session) all[count++] = {BucketOf(cell, i), cell & kMostCount};
    }
    // Read after the cells.
    const uint64_t forgotten = line.forgotten.load(std::memory_order_relaxed);
    const uint64_t forgotten_until = forgotten >> kValueBits == session ? forgotten & kMostValue : 0;
    std::sort(all.begin(), all.begin() + count, [](Marked a, Marked b) { return a.bucket < b.bucket; });
    const auto tell = [&](uint64_t begin, uint64_t end, uint64_t records) {
      const int64_t from_ns = std::max(BeginNs(begin), begin_ns), to_ns = std::min(BeginNs(end), end_ns);
      if (from_ns < to_ns) function(from_ns, to_ns, records);
    };
    tell(0, forgotten_until, 0);
    const uint64_t first = std::max(Bucket(begin_ns), forgotten_until), last = Bucket(end_ns);
    uint64_t begin = 0, end = 0, records = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const uint64_t bucket = all[i].bucket;
      if (bucket < first || bucket > last) continue;
      if (bucket != end) {
        tell(begin, end, records);
        begin = bucket, records = 0;
      }
      end = bucket + 1, records += all[i].records;
    }
    tell(begin, end, records);
  }

  std::array<std::array<Line, kMaxDevices + 1>, kLostReasons> lines_{};
  std::array<std::atomic<uint64_t>, kLostReasons> totals_{};
};

}  // namespace pitot::opencl

#endif  // PITOT_LIB_COLLECT_OPENCL_LOSSES_H_
