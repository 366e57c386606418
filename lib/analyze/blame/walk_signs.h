// SPDX-License-Identifier: Apache-2.0
//
// Where a request was seen: what was done for it, thread by thread, as a walk asks when nothing recorded says how it
// came where it is.
#ifndef PITOT_LIB_ANALYZE_BLAME_WALK_SIGNS_H_
#define PITOT_LIB_ANALYZE_BLAME_WALK_SIGNS_H_

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyze/blame/walk_threads.h"
#include "analyze/facts/patience.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// A moment on a thread at which something for the request was done.
struct Sign {
  uint32_t thread = model::kNone;
  int64_t at_ns = INT64_MIN;
};

// Of one request. What it is asked first costs O(n log n) of the request's events, batches and hand-overs.
class Signs {
 public:
  // Everything must outlive this.
  Signs(const model::Trace& trace, const model::RequestIndex& requests, const Memberships& memberships,
        uint32_t request, Patience* patience)
      : trace_(trace), requests_(requests), memberships_(memberships), request_(request), patience_(*patience) {}

  // Its first event or batch on the thread; INT64_MAX: none. O(1).
  int64_t FirstOn(uint32_t thread);
  // The last batch of its, or scope that is no wait, that ended on another thread than `but`, after `after_ns` and by
  // `by_ns`. A thread that had sent it on finishes nothing that it waits for. `owner`: on that thread alone (Pitot's
  // number), 0: on any. O(log n), and of those that ended between these moments.
  Sign LastDone(uint32_t but, int64_t after_ns, int64_t by_ns, uint32_t owner);
  // Where anything of it was recorded last before `by_ns`, on another thread than `but`. O(t log n), of t threads.
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
        earliest_take;  // hand-overs to it, and when it took one of these or later ones
  };

  void Build();
  OnThread& On(uint32_t thread);
  bool HadSentOn(uint32_t thread, int64_t at_ns) const;

  const model::Trace& trace_;
  const model::RequestIndex& requests_;
  const Memberships& memberships_;
  const uint32_t request_;
  Patience& patience_;

  bool is_built_ = false;
  std::vector<Deed> deeds_;  // by end; of equal ones the first that counts is last
  std::vector<OnThread> threads_;
  std::unordered_map<uint32_t, uint32_t> rows_;  // of threads_, by thread
  std::unordered_map<uint32_t, int64_t> first_ns_;
};

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_BLAME_WALK_SIGNS_H_
