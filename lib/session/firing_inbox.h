// SPDX-License-Identifier: Apache-2.0
//
// Firings between the host's threads and the watcher: those that may begin an incident and those that only join one.
#ifndef PITOT_LIB_SESSION_FIRING_INBOX_H_
#define PITOT_LIB_SESSION_FIRING_INBOX_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "session/firing_queue.h"

namespace pitot::session {

class FiringInbox {
 public:
  static constexpr size_t kMost = 256;  // of each of the two that wait for the watcher

  // May throw bad_alloc, as nothing else here.
  void Reserve() { begins_.reserve(kMost), joins_.reserve(kMost); }

  // By any thread. False if it is full.
  bool Push(const Firing& firing, uint64_t at_ticks, uint64_t begin_ticks) noexcept {
    // Before it can be taken: what may join it is welcome from now on.
    if (!firing.joins_only) beginnings_.fetch_add(1);
    if (queue_.Push(firing, at_ticks, begin_ticks)) return true;
    if (!firing.joins_only) beginnings_.fetch_sub(1);
    return false;
  }
  // By any thread: whether a firing that may begin an incident is on its way.
  bool IsBeginningDue() const noexcept { return beginnings_.load() != 0; }

  // The rest by the watcher. Takes what was pushed and returns how many found no room: joins that wait for a beginning
  // that is on its way never keep that out.
  uint64_t Collect() noexcept {
    uint64_t dropped = 0;
    QueuedFiring firing;
    is_more_ = true;
    // As many as came while it looked, and an end to it.
    for (size_t i = 0; i < 4 * kMost && is_more_ && begins_.size() < kMost; ++i) {
      is_more_ = queue_.Pop(&firing);
      if (!is_more_) break;
      std::vector<QueuedFiring>& where = firing.joins_only ? joins_ : begins_;
      if (where.size() < kMost)
        where.push_back(firing);
      else
        ++dropped;
    }
    // The oldest last, where they are taken from; of one moment, the one that was there first.
    for (std::vector<QueuedFiring>* firings : {&begins_, &joins_}) {
      std::reverse(firings->begin(), firings->end());
      std::stable_sort(firings->begin(), firings->end(), [](auto& a, auto& b) { return a.at_ticks > b.at_ticks; });
    }
    return dropped;
  }
  // The next: the oldest that may begin an incident, then the oldest that joins one, unless what it joins is on its way
  // still: not `is_pending`. False if there is none. Of one that may begin, Taken must follow.
  bool Next(bool is_pending, QueuedFiring* out) noexcept {
    std::vector<QueuedFiring>& from = begins_.empty() ? joins_ : begins_;
    if (from.empty() || (&from == &joins_ && !is_pending && IsBeginningDue())) return false;
    *out = from.back();
    from.pop_back();
    return true;
  }
  // Its incident is pending, or will not be.
  void Taken(const QueuedFiring& firing) noexcept {
    if (!firing.joins_only) beginnings_.fetch_sub(1);
  }
  bool IsEmpty() const noexcept { return !is_more_ && begins_.empty() && joins_.empty(); }

 private:
  FiringQueue queue_;
  std::atomic<uint64_t> beginnings_{0};  // pushed or being pushed, not Taken
  // The watcher's own.
  std::vector<QueuedFiring> begins_, joins_;
  bool is_more_ = false;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_FIRING_INBOX_H_
