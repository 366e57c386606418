// SPDX-License-Identifier: Apache-2.0
//
// Thread facts for a walk: the innermost piece before a moment, and the owner of the thread where no event names it.
#ifndef PITOT_LIB_ANALYZE_BLAME_WALK_THREADS_H_
#define PITOT_LIB_ANALYZE_BLAME_WALK_THREADS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "analyze/facts/patience.h"
#include "pitot/model/index.h"

namespace pitot::blame {

// A stretch of a thread with one thing innermost: a call of the GPU's API, otherwise a scope or wait, otherwise
// nothing.
struct Piece {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  uint32_t event = model::kNone;
  uint32_t call = model::kNone;
};

// A request's time in a batch. Sorted by request, then join.
struct Membership {
  uint32_t request;
  uint32_t batch;
  int64_t join_ns;
  int64_t leave_ns;         // if it stayed, the batch's end
  int64_t latest_leave_ns;  // of this and the request's earlier ones
  double work;              // as far as it is known; finite sums
};

// The memberships of all requests, by request.
class Memberships {
 public:
  explicit Memberships(const model::Trace& trace);
  const Membership* begin(uint32_t request) const { return rows_.data() + starts_[request]; }
  const Membership* end(uint32_t request) const { return rows_.data() + starts_[request + 1]; }

 private:
  std::vector<Membership> rows_;
  std::vector<uint32_t> starts_;
};

// Stretches of one thread that belong to rows of a table. The one with the latest begin has the thread.
class Tenures {
 public:
  struct Tenure {
    int64_t begin_ns, end_ns;
    uint32_t row;
  };
  void Add(int64_t begin_ns, int64_t end_ns, uint32_t row) {
    if (begin_ns < end_ns) all_.push_back({begin_ns, end_ns, row});
  }
  // Call once all are added. O(n log n).
  void Flatten();
  // The owner of the thread at `at_ns`, or kNone; `*until_ns` is lowered to the next possible change. O(log n).
  uint32_t At(int64_t at_ns, int64_t* until_ns) const;
  const std::vector<Tenure>& all() const { return all_; }

 private:
  std::vector<Tenure> all_;  // flat: in order, without overlaps
};

class Threads {
 public:
  // O(n log n). The trace and the indexes must outlive this.
  Threads(const model::Trace& trace, const model::RequestIndex& requests, const Memberships& memberships,
          facts::Patience* patience);

  // The piece that ends at `at_ns` or contains it: begin < at <= end. Where nothing ran it is a gap since the end of
  // the piece before (INT64_MIN without one). `thread` kNone: always a gap. O(log n).
  Piece Before(uint32_t thread, int64_t at_ns) const;
  // The same for the moment after `at_ns`: begin <= at < end.
  Piece At(uint32_t thread, int64_t at_ns) const;

  uint32_t BatchAt(uint32_t thread, int64_t at_ns, int64_t* until_ns) const {
    return batches_[thread].At(at_ns, until_ns);
  }
  uint32_t RequestAt(uint32_t thread, int64_t at_ns, int64_t* until_ns) const {
    return requests_[thread].At(at_ns, until_ns);
  }
  // All its pieces, in order.
  const std::vector<Piece>& Pieces(uint32_t thread) const { return pieces_[thread]; }
  // The begin of its first piece of code (calls and scopes, not waits) at `at_ns` or later. INT64_MAX: none. O(log n).
  int64_t CodeFromNs(uint32_t thread, int64_t at_ns) const;
  // When the request's first thread had time for it: at its first scope or call there, or when it joined a batch there;
  // never after `by_ns`.
  int64_t AcceptedNs(uint32_t request, int64_t by_ns) const;

 private:
  void FindAccepted(uint32_t request);
  void AddStays(uint32_t request, facts::Patience* patience);

  const model::Trace& trace_;
  const model::RequestIndex& index_;
  const Memberships& memberships_;
  std::vector<std::vector<Piece>> pieces_;   // by thread, in order
  std::vector<std::vector<uint32_t>> code_;  // by thread, which of its pieces are code
  std::vector<Tenures> batches_, requests_;  // by thread
  std::vector<int64_t> accepted_ns_;         // of each request, as AcceptedNs; INT64_MAX: no record
};

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_WALK_THREADS_H_
