// SPDX-License-Identifier: Apache-2.0
//
// The memory for CUPTI's records. CUPTI asks for buffers and gives them back on threads of the host and of its own,
// holding locks. So both are answered without a lock, an allocation or a page fault.
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
  uint64_t overwritten = 0;  // completed ones, still unread when CUPTI needed room
  uint64_t refused = 0;      // requests while CUPTI held all
  uint64_t foreign = 0;      // completed ones of somebody else, neither read nor freed
  uint64_t written_off = 0;  // somebody else got them
  uint64_t unplaced = 0;     // somebody else has them at present, and there is no other memory for them

  uint64_t out() const { return requested - refused - completed - written_off; }  // with CUPTI
};

// A fixed number of buffers of one size. A pool given to CUPTI must live as long as the process, because nobody can
// tell when CUPTI writes to a buffer for the last time.
class BufferPool {
 public:
  // Maps `count` buffers of `bytes` each, a multiple of 4096. Null if there is no memory.
  static std::unique_ptr<BufferPool> Make(uint32_t count, uint32_t bytes) noexcept;
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // Takes the memory for real, once; otherwise page faults would do so later. Thread: one.
  void Touch() noexcept;
  // A zeroed buffer. If none is free, the one completed first, unread: its `valid` bytes are handed to `drop(buffer,
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
  // A buffer and its state when found; false: it is not ours.
  struct Found {
    uint32_t index = ~0u;
    uintptr_t word = 0;
    explicit operator bool() const { return word != 0; }
  };
  // Finds a buffer by its address. Threads: any, lock-free.
  Found Find(const uint8_t* buffer) const noexcept;
  // Takes a buffer back from CUPTI, with `valid` bytes written. False, and counted, if it is not ours, or CUPTI does
  // not have it: it may have been written off since it was found. Threads: any, lock-free.
  bool Complete(const Found& found, uint64_t valid) noexcept;
  bool Complete(const uint8_t* buffer, uint64_t valid) noexcept { return Complete(Find(buffer), valid); }

  // Begins a new era, after somebody else's callbacks were registered and got CUPTI's completed buffers. Buffers given
  // out before belong to a former era from now on.
  void BeginEra() noexcept { era_.fetch_add(1, std::memory_order_relaxed); }
  // Gives up buffers of former eras that have not come back, and returns how many. CUPTI may still write to such a
  // buffer and complete it. So other memory takes its place, and its own is not used for kQuarantineNs. There is such
  // memory for kMostPlaces times the number of buffers at most. Further ones are unplaced, and a later call tries them
  // again. Thread: one.
  uint32_t WriteOff(int64_t now_ns) noexcept;
  static constexpr int64_t kQuarantineNs = 600'000'000'000;
  static constexpr uint32_t kMostPlaces = 1;

  // Hands completed buffers to `read(buffer, valid)`, in the order of their completion, then zeroes and frees them. One
  // call reads at most as many as there are. Threads: any.
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
  // When the oldest unread buffer of the present era was taken: CUPTI has it, or it waits to be read. Everything
  // recorded from then on may be in it. ns of CLOCK_MONOTONIC; INT64_MAX: there is none. Threads: any, lock-free. Cost:
  // a load or two for each buffer.
  int64_t OldestUnreadNs() const noexcept;
  // Bytes of the memory in place of written-off buffers. Thread: as WriteOff.
  uint64_t place_bytes() const noexcept { return uint64_t{places_} * bytes_; }

 private:
  // The buffer's memory, at the beginning of a page. While CUPTI has it, the low bits are kOut and its era. In one
  // word, so a buffer is given back or up only with the memory and the era that were looked at.
  struct Slot {
    std::atomic<uintptr_t> word{0};
    std::atomic<int64_t> taken_ns{0};  // 0: nobody has it, and all of it was read
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
  // As many bits of the era as fit into a word.
  uintptr_t EraBits() const { return uintptr_t{era_.load(std::memory_order_relaxed)} * 2 & (kPage - 2); }
  uint8_t* GiveOut(uint32_t index) noexcept;
  void Zero(uint32_t index) noexcept;
  void Free(uint32_t index) noexcept;

  struct Quarantined {
    uint8_t* memory;
    int64_t since_ns;
  };
  uint8_t* NewPlace(int64_t now_ns) noexcept;

  uint8_t* const memory_;  // the first memory of each buffer
  const std::unique_ptr<Slot[]> slots_;
  const uint32_t count_, bytes_;
  bool is_touched_ = false;
  IndexQueue free_, completed_;
  std::atomic<uint32_t> era_{0};
  std::vector<Quarantined> quarantine_;  // oldest first; has room for all
  uint32_t places_ = 0;                  // made in addition to the first of each
  std::atomic<uint64_t> requested_{0}, returned_{0}, overwritten_{0}, refused_{0}, foreign_{0}, written_off_{0},
      unplaced_{0};
};

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_BUFFERS_H_
