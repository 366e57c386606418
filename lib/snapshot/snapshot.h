// SPDX-License-Identifier: Apache-2.0
//
// A snapshot: copies of all rings for one window, the clocks to interpret them, and the open requests.
#ifndef PITOT_LIB_SNAPSHOT_SNAPSHOT_H_
#define PITOT_LIB_SNAPSHOT_SNAPSHOT_H_

#include <cstdint>
#include <new>
#include <vector>

#include "snapshot/modules.h"
#include "snapshot/reserve_parts.h"
#include "snapshot/ring_reader.h"
#include "snapshot/texts.h"
#include "trace/clock.h"
#include "trace/requests.h"

namespace pitot::snapshot {

// An open request. `words` (see internal_sites.h) are in the reserve; null if it had no room for them.
struct OpenRequestCopy {
  uint64_t id = 0;
  uint64_t begin_ticks = 0;
  uint32_t begin_thread = 0;  // number
  uint32_t count = 0;         // of words
  const uint64_t* words = nullptr;
};

struct Snapshot {
  const Texts* texts = &OwnTexts();  // outlives it
  Modules* modules = nullptr;        // outlives it; null: libraries are taken for as old as the recorder
  trace::ClockMap clock;             // from the recorder's start to this snapshot
  bool cycle_counter = false;
  uint64_t window_begin_ticks = 0;
  uint64_t window_end_ticks = 0;
  std::vector<RingCopy> rings;                 // each as one, also if several threads had it (former_threads.h)
  std::vector<OpenRequestCopy> open_requests;  // all; the most important first
  // When reading of the open requests began: a request that began earlier and is not among them had ended.
  uint64_t requests_ticks = 0;
  // Ends of requests that fired, copied by their threads: their rings may have lost them by the time of the snapshot.
  std::vector<EndCopy> ends;
  trace::RingCounts ring_counts;
  std::vector<trace::RecycledRing> recycled;
  trace::RequestCounts request_counts;
};

// A table of requests in another process's black box. Without one: this process's.
struct RequestTable {
  const void* table = nullptr;
  uint64_t bytes = 0;
};
// Visits open requests with a function that may throw bad_alloc; the exception is passed on after the visit.
template <class Visit> void VisitOpen(const RequestTable& of, Visit visit) {
  struct Context {
    Visit* visit;
    bool out_of_memory = false;
  } context{&visit};
  const auto call = [](void* to, const trace::OpenRequest& open) {
    auto* const it = static_cast<Context*>(to);
    try {
      (*it->visit)(open);
    } catch (const std::bad_alloc&) {
      it->out_of_memory = true;
    }
  };
  if (of.table == nullptr)
    trace::VisitOpenRequests(call, &context);
  else
    trace::VisitRequestsIn(of.table, of.bytes, call, &context);
  if (context.out_of_memory) throw std::bad_alloc();
}

// Copies the open requests: first those in `wanted`, then those that began first. Their words go to the beginning of
// the reserve, at most to its middle. Throws bad_alloc.
void CopyOpenRequests(const std::vector<uint64_t>& wanted, const RequestTable& of, Reserve* reserve,
                      std::vector<OpenRequestCopy>* copies);

// Memory for copies: reserved once; the pages of a copy are given back after its use.
class ReserveMemory {
 public:
  ReserveMemory() = default;
  ~ReserveMemory();
  ReserveMemory(const ReserveMemory&) = delete;
  ReserveMemory& operator=(const ReserveMemory&) = delete;
  bool Map(uint64_t bytes) noexcept;
  Reserve Whole() const { return {words_, words_ + bytes_ / 8}; }
  void GiveBackPages(const Reserve& part) noexcept;

 private:
  uint64_t* words_ = nullptr;
  uint64_t bytes_ = 0;
};

// Copies the window [`window_begin_ticks`, now] of every ring, and all open requests. The lower half of the reserve
// holds details of requests as far as it has room: first those in `wanted`, then those that began first. Rings of the
// threads in `out->ends` are copied first, the others then from the least to the most full. Runs on the calling thread,
// which should have normal priority: at idle priority, on a busy machine, the window is gone before it is read. Throws
// bad_alloc.
Filled TakeSnapshot(const trace::ClockReading& start, bool slow_clock, uint64_t window_begin_ticks,
                    const std::vector<uint64_t>& wanted, Reserve reserve, Snapshot* out);

}  // namespace pitot::snapshot

#endif  // PITOT_LIB_SNAPSHOT_SNAPSHOT_H_
