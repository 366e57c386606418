// SPDX-License-Identifier: Apache-2.0
//
// Notes of finished work on their way from the host's threads to the watcher: bounded, lock-free, no allocation.
#ifndef PITOT_LIB_GOVERNOR_NOTES_H_
#define PITOT_LIB_GOVERNOR_NOTES_H_

#include <pthread.h>
#include <stdint.h>

#include <atomic>

namespace pitot::governor {

// A finished unit of work, on CLOCK_MONOTONIC or another clock shared with the watcher's ticks.
struct Note {
  int64_t begin_ns;
  int64_t end_ns;
  uint32_t work_class;
};

// Many producers, one consumer. There are eight queues, and a thread keeps to one, so threads seldom meet on a cache
// line. Each is Dmitry Vyukov's bounded queue (1024cores.net, "Bounded MPMC queue") with one consumer. A cell's turn
// says whether it is free for the producer of that turn or full for the consumer.
class NoteQueue {
 public:
  static constexpr uint32_t kQueues = 8, kCells = 512;  // 4,096 notes a tick of 10 ms, 128 KiB

  NoteQueue() noexcept {
    for (Queue& queue : queues_) {
      for (uint32_t i = 0; i < kCells; ++i) queue.cells[i].turn.store(i, std::memory_order_relaxed);
    }
  }

  // Adds a note. False, and counted, if the thread's queue is full. Threads: any. Cost: one compare-and-swap, about 5
  // ns.
  bool Push(const Note& note) noexcept {
    Queue& queue = queues_[OwnQueue()];
    uint64_t turn = queue.tail.load(std::memory_order_relaxed);
    Cell* cell;
    for (;;) {
      cell = &queue.cells[turn % kCells];
      const uint64_t cell_turn = cell->turn.load(std::memory_order_acquire);
      if (cell_turn == turn) {
        if (queue.tail.compare_exchange_weak(turn, turn + 1, std::memory_order_relaxed)) break;
      } else if (cell_turn < turn) {
        queue.lost.fetch_add(1, std::memory_order_relaxed);
        return false;
      } else {
        turn = queue.tail.load(std::memory_order_relaxed);
      }
    }
    cell->note = note;
    cell->turn.store(turn + 1, std::memory_order_release);
    return true;
  }

  // Hands each waiting note to `take`, at most as many as fit: so it ends even while threads go on. Threads: one.
  template <class Take> void Drain(Take take) noexcept {
    for (Queue& queue : queues_) {
      for (uint32_t i = 0; i < kCells; ++i) {
        Cell& cell = queue.cells[queue.head % kCells];
        if (cell.turn.load(std::memory_order_acquire) != queue.head + 1) break;
        take(cell.note);
        cell.turn.store(queue.head + kCells, std::memory_order_release);
        ++queue.head;
      }
    }
  }

  uint64_t lost() const noexcept {
    uint64_t lost = 0;
    for (const Queue& queue : queues_) lost += queue.lost.load(std::memory_order_relaxed);
    return lost;
  }

 private:
  struct Cell {
    std::atomic<uint64_t> turn;
    Note note;
  };
  struct Queue {
    alignas(64) std::atomic<uint64_t> tail{0};
    std::atomic<uint64_t> lost{0};
    alignas(64) uint64_t head = 0;  // the consumer's
    Cell cells[kCells];
  };

  // Fibonacci hashing of the thread's address: no thread-local of our own.
  static uint32_t OwnQueue() noexcept {
    return static_cast<uint32_t>(static_cast<uint64_t>(pthread_self()) * 0x9e3779b97f4a7c15u >> 61) % kQueues;
  }

  Queue queues_[kQueues];
};

}  // namespace pitot::governor

#endif  // PITOT_LIB_GOVERNOR_NOTES_H_
