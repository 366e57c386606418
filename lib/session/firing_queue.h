// SPDX-License-Identifier: Apache-2.0
//
// Firings on their way from the host's threads to the recorder's: bounded, without a lock or an allocation.
#ifndef PITOT_LIB_SESSION_FIRING_QUEUE_H_
#define PITOT_LIB_SESSION_FIRING_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <cstdio>

#include "pitot/extend/trigger.h"
#include "snapshot/ring_reader.h"

namespace pitot::session {

struct QueuedFiring {
  uint64_t at_ticks;
  uint64_t begin_ticks;  // of its request or scope; `at_ticks` if it has none
  uint64_t request;
  uint32_t pre_window_ms, post_window_ms;
  bool joins_only;
  uint32_t more_like_it;
  char cause[96];
  char detail[192];
  snapshot::EndCopy end;  // of its request, if it has just ended

  void Set(const Firing& firing, uint64_t at, uint64_t begin) noexcept {
    at_ticks = at;
    begin_ticks = begin;
    request = firing.request;
    pre_window_ms = firing.pre_window_ms;
    post_window_ms = firing.post_window_ms;
    joins_only = firing.joins_only;
    more_like_it = firing.more_like_it;
    std::snprintf(cause, sizeof cause, "%s", firing.cause != nullptr ? firing.cause : "");
    std::snprintf(detail, sizeof detail, "%s", firing.detail != nullptr ? firing.detail : "");
  }
};

// Many producers, one consumer. A cell is free, then claimed by a producer, then full, then free again.
class FiringQueue {
 public:
  // False if it is full.
  bool Push(const Firing& firing, uint64_t at_ticks, uint64_t begin_ticks, const snapshot::EndCopy& end = {}) noexcept {
    for (Cell& cell : cells_) {
      uint8_t state = kFree;
      if (!cell.state.compare_exchange_strong(state, kClaimed, std::memory_order_acquire)) continue;
      cell.firing.Set(firing, at_ticks, begin_ticks);
      cell.firing.end = end;
      cell.state.store(kFull, std::memory_order_release);
      return true;
    }
    return false;
  }

  // Takes one; firings of one moment do not keep their order. False if there is none.
  bool Pop(QueuedFiring* out) noexcept {
    for (Cell& cell : cells_) {
      if (cell.state.load(std::memory_order_acquire) != kFull) continue;
      *out = cell.firing;
      cell.state.store(kFree, std::memory_order_release);
      return true;
    }
    return false;
  }

 private:
  static constexpr uint8_t kFree = 0, kClaimed = 1, kFull = 2;
  struct Cell {
    std::atomic<uint8_t> state{kFree};
    QueuedFiring firing;
  };
  Cell cells_[64];
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_FIRING_QUEUE_H_
