// SPDX-License-Identifier: Apache-2.0
//
// Firings between the host's threads and the watcher: some may begin an incident, others only join one.
#ifndef PITOT_LIB_SESSION_FIRING_INBOX_H_
#define PITOT_LIB_SESSION_FIRING_INBOX_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "session/firing_queue.h"

namespace pitot::session {

class FiringInbox {
 public:
  static constexpr size_t kMost = 256;  // of each of the two kinds waiting for the watcher

  // May throw bad_alloc, unlike everything else here.
  void Reserve() { begins_.reserve(kMost), joins_.reserve(kMost); }

  // Called by any thread. False if it is full.
  bool Push(const Firing& firing, uint64_t at_ticks, uint64_t begin_ticks, const snapshot::EndCopy& end = {}) noexcept {
    // Counted before it can be taken: firings that join it are welcome from now on.
    if (!firing.joins_only) beginnings_.fetch_add(1);
    if (queue_.Push(firing, at_ticks, begin_ticks, end)) return true;
    if (!firing.joins_only) beginnings_.fetch_sub(1);
    return false;
  }
  // Whether a firing that may begin an incident is on its way. Called by any thread.
  bool IsBeginningDue() const noexcept { return beginnings_.load() != 0; }

  // The rest is called by the watcher. Takes the pushed firings and returns how many found no room. Joins waiting for a
  // beginning on its way never keep that out.
  uint64_t Collect() noexcept {
    uint64_t dropped = 0;
    QueuedFiring firing;
    is_more_ = true;
    // At most as many as may come while it looks, so that it ends.
    for (size_t i = 0; i < 4 * kMost && is_more_ && begins_.size() < kMost; ++i) {
      is_more_ = queue_.Pop(&firing);
      if (!is_more_) break;
      std::vector<QueuedFiring>& where = firing.joins_only ? joins_ : begins_;
      if (where.size() < kMost) {
        where.push_back(firing);
      } else {
        ++dropped;
        CountInAnother(firing, &where);
      }
    }
    // The oldest last, because they are taken from there; of one moment, the first to come.
    for (std::vector<QueuedFiring>* firings : {&begins_, &joins_}) {
      std::reverse(firings->begin(), firings->end());
      std::stable_sort(firings->begin(), firings->end(), [](auto& a, auto& b) { return a.at_ticks > b.at_ticks; });
    }
    return dropped;
  }
  // Takes the next firing: the oldest that may begin an incident, then the oldest that joins one. A join waits while
  // its beginning is still on its way: not `is_pending`. False if there is none. Taken must follow for one that may
  // begin an incident.
  bool Next(bool is_pending, QueuedFiring* out) noexcept {
    std::vector<QueuedFiring>& from = begins_.empty() ? joins_ : begins_;
    if (from.empty() || (&from == &joins_ && !is_pending && IsBeginningDue())) return false;
    *out = from.back();
    from.pop_back();
    return true;
  }
  // Called once the firing's incident is pending, or will not be.
  void Taken(const QueuedFiring& firing) noexcept {
    if (!firing.joins_only) beginnings_.fetch_sub(1);
  }
  bool IsEmpty() const noexcept { return !is_more_ && begins_.empty() && joins_.empty(); }

 private:
  // A dropped firing, in the newest of its cause.
  static void CountInAnother(const QueuedFiring& dropped, std::vector<QueuedFiring>* waiting) noexcept {
    const auto at = std::find_if(waiting->rbegin(), waiting->rend(),
                                 [&](auto& one) { return std::strcmp(one.cause, dropped.cause) == 0; });
    if (at != waiting->rend()) at->more_like_it += 1 + dropped.more_like_it;
  }

  FiringQueue queue_;
  std::atomic<uint64_t> beginnings_{0};  // pushed or being pushed, not Taken
  // Used by the watcher only.
  std::vector<QueuedFiring> begins_, joins_;
  bool is_more_ = false;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_FIRING_INBOX_H_
