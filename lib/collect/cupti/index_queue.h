// SPDX-License-Identifier: Apache-2.0
//
// A queue of indices with room for all of them: first in, first out, any number of threads at both ends, no lock.
#ifndef PITOT_LIB_COLLECT_CUPTI_INDEX_QUEUE_H_
#define PITOT_LIB_COLLECT_CUPTI_INDEX_QUEUE_H_

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <new>

namespace pitot::cupti {

// Each cell has a turn: its index in the queue's history if it may be filled, one more if it may be emptied.
class IndexQueue {
 public:
  // Makes room for at most `most` indices at once. False if there is no memory. There are more cells than that, because
  // Push waits for a cell that another thread is emptying. So it waits only if that takes as long as filling all the
  // others.
  bool Reserve(uint32_t most) noexcept {
    const uint64_t size = std::bit_ceil(uint64_t{most} * 4);
    cells_.reset(new (std::nothrow) Cell[size]);
    if (cells_ == nullptr) return false;
    for (uint64_t i = 0; i < size; ++i) cells_[i].turn.store(i, std::memory_order_relaxed);
    mask_ = size - 1;
    return true;
  }

  // Adds an index. There is room: no more than `most` are ever in it.
  void Push(uint32_t index) noexcept {
    uint64_t at = last_.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[at & mask_];
      const uint64_t turn = cell.turn.load(std::memory_order_acquire);
      if (turn == at) {
        if (!last_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) continue;
        cell.index = index;
        cell.turn.store(at + 1, std::memory_order_release);
        return;
      }
      at = last_.load(std::memory_order_relaxed);
    }
  }

  // Takes the oldest. False if it is empty, or the oldest is being pushed at this moment.
  bool Pop(uint32_t* index) noexcept {
    uint64_t at = first_.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[at & mask_];
      const uint64_t turn = cell.turn.load(std::memory_order_acquire);
      if (turn == at + 1) {
        if (!first_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) continue;
        *index = cell.index;
        cell.turn.store(at + mask_ + 1, std::memory_order_release);
        return true;
      }
      if (turn < at + 1) return false;
      at = first_.load(std::memory_order_relaxed);
    }
  }

 private:
  struct Cell {
    std::atomic<uint64_t> turn;
    uint32_t index;
  };
  std::unique_ptr<Cell[]> cells_;
  uint64_t mask_ = 0;
  alignas(64) std::atomic<uint64_t> last_{0};
  alignas(64) std::atomic<uint64_t> first_{0};
};

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_INDEX_QUEUE_H_
