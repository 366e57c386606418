// SPDX-License-Identifier: Apache-2.0
//
// The memory that CUPTI writes records into. CUPTI asks for buffers and gives them back on threads of the host and of
// its own, holding locks: both must be answered without a lock, an allocation or a page fault.
#ifndef PITOT_LIB_COLLECT_CUPTI_BUFFERS_H_
#define PITOT_LIB_COLLECT_CUPTI_BUFFERS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "collect/cupti/index_queue.h"

namespace pitot::cupti {

struct BufferCounts {
  uint64_t requested = 0;
  uint64_t completed = 0;
  uint64_t overwritten = 0;  // completed ones that nobody had read when CUPTI needed room
  uint64_t refused = 0;      // requests when CUPTI held all
  uint64_t foreign = 0;      // completed ones that are not ours: somebody else's, neither read nor freed
  uint64_t written_off = 0;  // somebody else got them
  uint64_t unplaced = 0;     // that somebody else got, too, at present: there is no other memory for them

  uint64_t out() const { return requested - refused - completed - written_off; }  // with CUPTI
};

// A fixed number of buffers of one size. Who gives them to CUPTI keeps the pool for the life of the process: nobody can
// tell when CUPTI writes to a buffer for the last time.
class BufferPool {
 public:
  // Maps `count` buffers of `bytes` each, a multiple of 4096. Null if there is no memory.
  static std::unique_ptr<BufferPool> Make(uint32_t count, uint32_t bytes) noexcept;
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // Takes the memory for real, once, which would otherwise come with page faults. Thread: one.
  void Touch() noexcept;
  // A zeroed buffer; where none is free the one completed first, unread: its `valid` bytes are handed to `drop(buffer,
  // valid)` before. Null if CUPTI holds all. Threads: any, lock-free.
  template <class Drop> uint8_t* Take(Drop drop) noexcept {
    requested_.fetch_add(1, std::memory_order_relaxed);
    uint32_t index;
    if (free_.Pop(&index)) return GiveOut(index);
    if (!completed_.Pop(&index)) {
      refused_.fetch_add(1, std::memory_order_relaxed);
      return nullptr;
    }
    overwritten_.fetch_add(1, std::memory_order_relaxed);
    drop(static_cast<const uint8_t*>(At(index)), slots_[index].valid);
    Zero(index);
    return GiveOut(index);
  }
  uint8_t* Take() noexcept {
    return Take([](const uint8_t*, uint64_t) {});
  }
  // A buffer as it was when it was found; false: it is none of ours.
  struct Found {
    uint32_t index = ~0u;
    uintptr_t word = 0;
    explicit operator bool() const { return word != 0; }
  };
  // Threads: any, lock-free.
  Found Find(const uint8_t* buffer) const noexcept;
  // CUPTI gives a buffer back, `valid` bytes of it written. False, and counted, if it is none of ours or CUPTI does not
  // have it, as when it was written off since it was found. Threads: any, lock-free.
  bool Complete(const Found& found, uint64_t valid) noexcept;
  bool Complete(const uint8_t* buffer, uint64_t valid) noexcept { return Complete(Find(buffer), valid); }

  // Somebody else's callbacks were registered and got what CUPTI completed: buffers that went out before are from now
  // on of a former era.
  void BeginEra() noexcept { era_.fetch_add(1, std::memory_order_relaxed); }
  // Gives up what has not come back of former eras. CUPTI may write to it and complete it yet, so other memory takes
  // its place, and that memory is not used for kQuarantineNs; of kMostPlaces times as many buffers as there are at
  // most. For more there is none: they are unplaced, and may be asked for again. Returns how many it gave up. Thread:
  // one.
  uint32_t WriteOff(int64_t now_ns) noexcept;
  static constexpr int64_t kQuarantineNs = 600'000'000'000;
  static constexpr uint32_t kMostPlaces = 1;

  // Hands what was completed to `read(buffer, valid)`, first the one completed first, then zeroes it and frees it. No
  // more than there are buffers at a call. Threads: any.
  template <class Read> void Drain(Read read) {
    uint32_t index;
    for (uint32_t i = 0; i < count_ && completed_.Pop(&index); ++i) {
      const GiveBack give_back{this, index};
      read(static_cast<const uint8_t*>(At(index)), slots_[index].valid);
    }
  }

  uint32_t bytes() const { return bytes_; }
  uint32_t count() const { return count_; }
  BufferCounts counts() const noexcept;
  // When the oldest buffer of the present era was taken that has not been read since, because CUPTI has it or because
  // it waits to be read: what was recorded from then on may be in it. ns of CLOCK_MONOTONIC; INT64_MAX: there is none.
  // Threads: any, lock-free. Cost: a load or two for each buffer.
  int64_t OldestUnreadNs() const noexcept;
  // Of the memory that took the place of what was written off. Thread: that of WriteOff.
  uint64_t place_bytes() const noexcept { return uint64_t{places_} * bytes_; }

 private:
  // Its memory, which begins a page; below, where CUPTI has it, kOut and the era in which it went out. One word: who
  // gives a buffer back, or up, does it to the memory and the era that were looked at, or not at all.
  struct Slot {
    std::atomic<uintptr_t> word{0};
    std::atomic<int64_t> taken_ns{0};  // 0: nobody has it, and all that it held is read
    uint64_t valid = 0;
  };
  static constexpr uintptr_t kPage = 4096, kOut = 1;
  struct GiveBack {
    ~GiveBack() { pool->Zero(index), pool->Free(index); }
    BufferPool* pool;
    uint32_t index;
  };

  BufferPool(uint8_t* memory, std::unique_ptr<Slot[]> slots, uint32_t count, uint32_t bytes) noexcept
      : memory_(memory), slots_(std::move(slots)), count_(count), bytes_(bytes) {}
  static uint8_t* MemoryOf(uintptr_t word) { return reinterpret_cast<uint8_t*>(word & ~(kPage - 1)); }
  uint8_t* At(uint32_t index) const { return MemoryOf(slots_[index].word.load(std::memory_order_relaxed)); }
  // What of the era a word has room for.
  uintptr_t EraBits() const { return uintptr_t{era_.load(std::memory_order_relaxed)} * 2 & (kPage - 2); }
  uint8_t* GiveOut(uint32_t index) noexcept;
  void Zero(uint32_t index) noexcept;
  void Free(uint32_t index) noexcept;

  struct Quarantined {
    uint8_t* memory;
    int64_t since_ns;
  };
  uint8_t* NewPlace(int64_t now_ns) noexcept;

  uint8_t* const memory_;  // of the first of each
  const std::unique_ptr<Slot[]> slots_;
  const uint32_t count_, bytes_;
  bool is_touched_ = false;
  IndexQueue free_, completed_;
  std::atomic<uint32_t> era_{0};
  std::vector<Quarantined> quarantine_;  // oldest first; has room for all there can be
  uint32_t places_ = 0;                  // made beyond the first of each
  std::atomic<uint64_t> requested_{0}, returned_{0}, overwritten_{0}, refused_{0}, foreign_{0}, written_off_{0},
      unplaced_{0};
};

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_BUFFERS_H_
