// SPDX-License-Identifier: Apache-2.0
//
// Indexes over a trace, built once and shared by reports and analyzers.
#ifndef PITOT_MODEL_INDEX_H_
#define PITOT_MODEL_INDEX_H_

#include <cstdint>
#include <vector>

#include "pitot/model/trace.h"

PITOT_NAMESPACE_BEGIN
namespace model {

// Thread flatten (I3): for each thread the innermost scope at every moment, as segments that do not overlap, in order.
// Moments outside every scope have no segment. Where scopes of a thread overlap without nesting (closed out of order),
// the one that began last is innermost.
struct Segment {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  uint32_t event = kNone;
};
// Of one thread from `begin_ns` to `end_ns`, cut there. Memory: by what ran then. O(events of the thread).
PITOT_EXPORT std::vector<Segment> FlattenThread(const Trace& trace, uint32_t thread, int64_t begin_ns = INT64_MIN,
                                                int64_t end_ns = INT64_MAX);
// Of all threads.
class PITOT_EXPORT ThreadFlatten {
 public:
  // O(n log n). The trace must outlive nothing: the index copies what it needs.
  explicit ThreadFlatten(const Trace& trace);
  // Its segments, in order; empty for a thread that recorded no scope.
  const std::vector<Segment>& Thread(uint32_t thread) const { return threads_[thread]; }
  // The segment that holds `at_ns`, or else the last one before it; kNone if there is none. O(log n).
  uint32_t Find(uint32_t thread, int64_t at_ns) const;

 private:
  std::vector<std::vector<Segment>> threads_;
};

// Request index (I6): everything that belongs to a request. Events belong to it that ran in its context or in that of a
// batch it was a member of, while it was open.
class PITOT_EXPORT RequestIndex {
 public:
  explicit RequestIndex(const Trace& trace);
  struct Range {
    const uint32_t* first;
    const uint32_t* last;
    const uint32_t* begin() const { return first; }
    const uint32_t* end() const { return last; }
    uint32_t size() const { return static_cast<uint32_t>(last - first); }
  };
  Range Events(uint32_t request) const { return Of(events_, event_starts_, request); }    // in its own context
  Range Batches(uint32_t request) const { return Of(batches_, batch_starts_, request); }  // it was a member of
  Range Handoffs(uint32_t request) const { return Of(handoffs_, handoff_starts_, request); }
  Range Asyncs(uint32_t request) const { return Of(asyncs_, async_starts_, request); }
  // Row of the request with this id, or kNone.
  uint32_t Row(uint64_t id) const;
  // Events recorded in the batch's context.
  Range BatchEvents(uint32_t batch) const { return Of(batch_events_, batch_event_starts_, batch); }

 private:
  static Range Of(const std::vector<uint32_t>& rows, const std::vector<uint32_t>& starts, uint32_t key) {
    return {rows.data() + starts[key], rows.data() + starts[key + 1]};
  }
  std::vector<uint32_t> events_, event_starts_, batches_, batch_starts_, handoffs_, handoff_starts_, asyncs_,
      async_starts_, batch_events_, batch_event_starts_;
  std::unordered_map<uint64_t, uint32_t> rows_;
};

}  // namespace model
PITOT_NAMESPACE_END

#endif  // PITOT_MODEL_INDEX_H_
