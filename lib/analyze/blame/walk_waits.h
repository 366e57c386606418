// SPDX-License-Identifier: Apache-2.0
//
// What waits of threads record: their arguments, and for locks the holders, one after the other.
#ifndef PITOT_LIB_ANALYZE_BLAME_WALK_WAITS_H_
#define PITOT_LIB_ANALYZE_BLAME_WALK_WAITS_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "analyze/blame/namespace.h"
#include "analyze/blame/walk_threads.h"
#include "pitot/analyze/why.h"
#include "pitot/model/intervals.h"
#include "pitot/wait.h"

namespace pitot::blame {

// The arguments of a wait, as PITOT_WAIT records them.
struct WaitArgs {
  WaitKind kind = WaitKind::kOther;
  model::StringId resource = 0;
  uint32_t owner_thread = 0;   // Pitot's number
  uint64_t owner_request = 0;  // id
};

// True if `event` is a wait; fills in its arguments if they can be read.
bool ReadWait(const model::Trace& trace, uint32_t event, WaitArgs* args);

// The holder of a lock, and since when.
struct LockGrant {
  int64_t at_ns = 0;
  Culprit holder;
};

// Threads that began to wait for a lock while another held it.
struct LockQueue {
  model::StringId resource = 0;
  uint32_t threads = 0;
};

// All locks that were ever waited for.
class Locks {
 public:
  // O(n log n). The trace and the indexes must outlive this.
  Locks(const model::Trace& trace, const model::RequestIndex& requests, const Threads& threads);

  // When the lock became the waiter's: at the last release before the wait's end. From then on the waiter only had to
  // wake up. The wait's end if no release was recorded.
  int64_t GrantedNs(uint32_t event, const WaitArgs& args) const;
  // The holder of the awaited lock just before `by_ns`, when the waiter has not got it yet, and since when: INT64_MIN
  // if since before the wait. O(log n).
  LockGrant HeldBefore(uint32_t event, const WaitArgs& args, int64_t by_ns) const;
  // The times a lock was held, each time that it was waited for, as far as its release was recorded: others have to
  // wait then, too. O(n log n) in its waits.
  std::vector<model::Interval> Holds(model::StringId resource) const;
  // The locks with such holds, in order.
  std::vector<model::StringId> Held() const;
  // Until when the thread kept the lock that it had at some time in `when`, as others' waits for it show: at most the
  // end of `when`, and its begin if nobody waited for the thread. O(n) in the waits for locks this thread ever held.
  int64_t KeptUntilNs(uint32_t thread, model::StringId resource, model::Interval when) const;
  // The lock of the thread with the most new waiters between these times, and their number. O(n) in the waits for locks
  // this thread ever held.
  LockQueue Behind(uint32_t thread, int64_t begin_ns, int64_t end_ns) const;
  // The row of the thread that a wait names; kNone: none.
  uint32_t OwnerRow(const WaitArgs& args) const {
    const auto row = thread_rows_.find(args.owner_thread);
    return row != thread_rows_.end() ? row->second : model::kNone;
  }

 private:
  Culprit Holder(uint32_t thread, uint32_t request, int64_t at_ns) const;

  const model::Trace& trace_;
  const model::RequestIndex& requests_;
  const Threads& threads_;
  std::unordered_map<uint32_t, uint32_t> thread_rows_;                  // by Pitot's number
  std::unordered_map<model::StringId, std::vector<int64_t>> releases_;  // by resource, in order
  std::unordered_map<model::StringId, std::vector<LockGrant>> grants_;  // the same
  std::unordered_map<uint32_t, std::vector<uint32_t>> behind_;          // waits, by the row of the thread in the way
};

// The outermost request containing `request`, as far as the trace knows.
uint32_t Outermost(const model::Trace& trace, const model::RequestIndex& requests, uint32_t request);

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_WALK_WAITS_H_
