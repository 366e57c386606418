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
  // A zeroed buffer; where none is free the one completed first, unread; null if CUPTI holds all. Threads: any,
  // lock-free.
  uint8_t* Take() noexcept;
  // Threads: any, lock-free.
  bool Owns(const uint8_t* buffer) const noexcept { return IndexOf(buffer) != kNoIndex; }
  // CUPTI gives `buffer` back, `valid` bytes of it written. False, and counted, if it is none of ours. Threads: any,
  // lock-free.
  bool Complete(uint8_t* buffer, uint64_t valid) noexcept;

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
  // Of the memory that took the place of what was written off. Thread: that of WriteOff.
  uint64_t place_bytes() const noexcept { return uint64_t{places_} * bytes_; }

 private:
  // Whose a buffer is. One that comes back is ours only if CUPTI has it.
  enum State : uint8_t { kHome, kOut };
  struct Slot {
    std::atomic<State> state{kHome};
    std::atomic<uint32_t> era{0};  // in which it went out
    std::atomic<uint8_t*> memory{nullptr};
    uint64_t valid = 0;
  };
  struct GiveBack {
    ~GiveBack() { pool->Zero(index), pool->free_.Push(index); }
    BufferPool* pool;
    uint32_t index;
  };

  BufferPool(uint8_t* memory, std::unique_ptr<Slot[]> slots, uint32_t count, uint32_t bytes) noexcept
      : memory_(memory), slots_(std::move(slots)), count_(count), bytes_(bytes) {}
  uint8_t* At(uint32_t index) const { return slots_[index].memory.load(std::memory_order_relaxed); }
  // kNoIndex: none of ours.
  uint32_t IndexOf(const uint8_t* buffer) const noexcept;
  void Zero(uint32_t index) noexcept;

  static constexpr uint32_t kNoIndex = ~0u;

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
