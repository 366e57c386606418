// SPDX-License-Identifier: Apache-2.0
//
// How long the copy of an incident may wait for the end of its post window, because the rings go on forgetting: none
// may lose more than an eighth of itself that the window would have held. A watcher that came late already, measured by
// what the thread that fired has written since, does not wait at all: it would come late again.
#ifndef PITOT_LIB_SESSION_RING_WATCH_H_
#define PITOT_LIB_SESSION_RING_WATCH_H_

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "session/ring_ages.h"

namespace pitot::session {

// A ring when its incident begins.
struct WatchedRing {
  RingAt at;
  uint64_t needed_from;  // the window's first word is this one or a later one
  int64_t age_ns;        // how far back the ring reaches
  uint64_t written = 0;  // words since its thread fired
};

// The watcher's.
class RingWatch {
 public:
  void Begin(const std::vector<WatchedRing>& rings, int64_t now_ns) {
    begin_ns_ = now_ns;
    limits_.clear();
    int64_t left_ns = INT64_MAX;
    bool is_late = false;
    for (const WatchedRing& ring : rings) {
      is_late = is_late || ring.written > ring.at.capacity / kLatePart;
      const uint64_t capacity = ring.at.capacity, most = capacity / kPart;
      const uint64_t head = std::max(OldestWord(ring.at), ring.needed_from) + most + capacity;
      limits_[ring.at.number] = {ring.at.head, head};
      // A full ring turns once in its age. Another one is looked at soon.
      if (OldestWord(ring.at) != ring.at.floor)
        left_ns =
            std::min(left_ns, static_cast<int64_t>(static_cast<double>(head - ring.at.head) /
                                                   static_cast<double>(capacity) * static_cast<double>(ring.age_ns)));
    }
    look_ns_ = now_ns + std::min(left_ns / 2, kSoonNs);
    is_over_ = is_late || left_ns < kSoonNs;
  }

  // When to look again.
  int64_t look_ns() const noexcept { return look_ns_; }
  // Whether the copy may not wait any longer.
  bool IsOver() const noexcept { return is_over_; }

  // Looks again. A ring that came since then loses nothing of the window.
  void Look(const std::vector<RingAt>& rings, int64_t now_ns) {
    double left_ns = static_cast<double>(kLateNs) * 2;
    for (const RingAt& ring : rings) {
      const auto at = limits_.find(ring.number);
      if (at == limits_.end()) continue;
      const Limit& limit = at->second;
      if (ring.head >= limit.head) is_over_ = true;
      if (ring.head <= limit.begin_head || is_over_) continue;
      left_ns =
          std::min(left_ns, static_cast<double>(now_ns - begin_ns_) * static_cast<double>(limit.head - ring.head) /
                                static_cast<double>(ring.head - limit.begin_head));
    }
    const auto half_ns = static_cast<int64_t>(left_ns / 2);
    // A clock that stands still tells no pace.
    if (half_ns < kSoonNs / 2 && now_ns != begin_ns_) is_over_ = true;
    look_ns_ = now_ns + std::clamp(half_ns, kSoonNs, kLateNs);
  }

 private:
  static constexpr uint64_t kPart = 8, kLatePart = 32;
  static constexpr int64_t kSoonNs = 1'000'000, kLateNs = 10'000'000;  // between looks
  struct Limit {
    uint64_t begin_head, head;
  };

  std::unordered_map<uint32_t, Limit> limits_;  // by number
  int64_t begin_ns_ = 0, look_ns_ = 0;
  bool is_over_ = false;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_RING_WATCH_H_
