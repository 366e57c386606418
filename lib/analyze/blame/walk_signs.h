// SPDX-License-Identifier: Apache-2.0
//
// Where a request was seen: the work done for it, thread by thread. A walk asks when no record says how the request
// came to its place.
#ifndef PITOT_LIB_ANALYZE_BLAME_WALK_SIGNS_H_
#define PITOT_LIB_ANALYZE_BLAME_WALK_SIGNS_H_

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyze/blame/walk_threads.h"
#include "analyze/facts/patience.h"

namespace pitot::blame {

// A moment on a thread with something done for the request.
struct Sign {
  uint32_t thread = model::kNone;
  int64_t at_ns = INT64_MIN;
};

// The signs of one request. The first question costs O(n log n) in the request's events, batches and hand-overs.
class Signs {
 public:
  // Everything must outlive this. `request` kNone: there are none.
  Signs(const model::Trace& trace, const model::RequestIndex& requests, const Memberships& memberships,
        uint32_t request, facts::Patience* patience)
      : trace_(trace), requests_(requests), memberships_(memberships), request_(request), patience_(*patience) {}

  // Its first event or batch on the thread; INT64_MAX: none. O(1).
  int64_t FirstOn(uint32_t thread);
  // The last of its batches and scopes (not waits) to end on a thread other than `but`, after `after_ns` and by
  // `by_ns`. A thread that had sent the request on finishes nothing the request waits for. With `owner` (Pitot's
  // number; 0: any) only that thread counts. O(log n), and the number that ended between these moments.
  Sign LastDone(uint32_t but, int64_t after_ns, int64_t by_ns, uint32_t owner);
  // The last record of the request before `by_ns`, on a thread other than `but`. O(t log n) in t threads.
  Sign LastSeen(uint32_t but, int64_t by_ns);

 private:
  struct Deed {
    int64_t end_ns, begin_ns;
    uint32_t thread;
    bool is_batch;
  };
  struct Span {
    int64_t begin_ns, end_ns;
    int64_t latest_end_ns;  // of it and those before it
    uint32_t order;
  };
  struct OnThread {
    uint32_t thread;
    std::vector<Span> batches, events;               // by begin
    std::vector<std::pair<int64_t, uint32_t>> sent;  // when, and which hand-over; by time
    std::vector<std::pair<uint32_t, int64_t>>
        earliest_take;  // hand-overs to it, and the first take of one of these or later ones
  };

  void Build();
  OnThread& On(uint32_t thread);
  bool HadSentOn(uint32_t thread, int64_t at_ns) const;

  const model::Trace& trace_;
  const model::RequestIndex& requests_;
  const Memberships& memberships_;
  const uint32_t request_;
  facts::Patience& patience_;

  bool is_built_ = false;
  std::vector<Deed> deeds_;  // by end; among equal ones the first that counts is last
  std::vector<OnThread> threads_;
  std::unordered_map<uint32_t, uint32_t> rows_;  // of threads_, by thread
  std::unordered_map<uint32_t, int64_t> first_ns_;
};

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_WALK_SIGNS_H_
