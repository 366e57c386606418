// SPDX-License-Identifier: Apache-2.0
//
// Indexes over a trace, built once and shared by reports and analyzers.
#ifndef PITOT_MODEL_INDEX_H_
#define PITOT_MODEL_INDEX_H_

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "pitot/model/intervals.h"
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

// Rows of a table, in order; valid as long as the index that gave it.
struct RowRange {
  const uint32_t* first;
  const uint32_t* last;
  const uint32_t* begin() const { return first; }
  const uint32_t* end() const { return last; }
  uint32_t size() const { return static_cast<uint32_t>(last - first); }
};

// Request index (I6): everything that belongs to a request. Events belong to it that ran in its context or in that of a
// batch it was a member of, while it was open.
class PITOT_EXPORT RequestIndex {
 public:
  explicit RequestIndex(const Trace& trace);
  using Range = RowRange;
  Range Events(uint32_t request) const { return Of(events_, event_starts_, request); }    // in its own context
  Range Batches(uint32_t request) const { return Of(batches_, batch_starts_, request); }  // it was a member of
  Range Handoffs(uint32_t request) const { return Of(handoffs_, handoff_starts_, request); }
  Range Asyncs(uint32_t request) const { return Of(asyncs_, async_starts_, request); }
  Range Tokens(uint32_t request) const { return Of(tokens_, token_starts_, request); }
  // Row of the request with this id, or kNone.
  uint32_t Row(uint64_t id) const;
  // Events recorded in the batch's context.
  Range BatchEvents(uint32_t batch) const { return Of(batch_events_, batch_event_starts_, batch); }

 private:
  static Range Of(const std::vector<uint32_t>& rows, const std::vector<uint32_t>& starts, uint32_t key) {
    return {rows.data() + starts[key], rows.data() + starts[key + 1]};
  }
  std::vector<uint32_t> events_, event_starts_, batches_, batch_starts_, handoffs_, handoff_starts_, asyncs_,
      async_starts_, tokens_, token_starts_, batch_events_, batch_event_starts_;
  std::unordered_map<uint64_t, uint32_t> rows_;
};

// Launch index (I1): what each call caused on GPUs. One call may have caused many rows (a graph's nodes).
class PITOT_EXPORT LaunchIndex {
 public:
  // O(n). The trace must outlive nothing.
  explicit LaunchIndex(const Trace& trace);
  // Rows of `gpu`, by stream and begin.
  RowRange Gpu(uint32_t call) const { return {rows_.data() + starts_[call], rows_.data() + starts_[call + 1]}; }

 private:
  std::vector<uint32_t> rows_, starts_;
};

// Calls that wait for GPUs: that synchronise, that are copies by a call that is not asynchronous, and copies that end
// in pageable memory or begin there, which hold up who makes them by whatever call (CUDA's API synchronization
// behavior).
class PITOT_EXPORT WaitingCalls {
 public:
  // O(calls + rows of `gpu`). The trace must outlive nothing.
  explicit WaitingCalls(const Trace& trace);
  bool Has(uint32_t call) const { return waits_[call]; }

 private:
  std::vector<bool> waits_;
};

// Whether a row of `gpu` is a copy to or from pageable memory, by the name that collectors and readers give it.
PITOT_EXPORT bool IsPageableCopy(const Trace& trace, uint32_t row);

// Whether a row of `gpu` is work that no call of a known batch or request caused; spans are none.
PITOT_EXPORT bool IsNobodys(const Trace& trace, uint32_t row);

// Stream tables (I2): when a stream or any stream of a device did something. What is between two of a set's intervals
// is an idle gap. Spans are left out: they have gaps of their own. O(n log n) of the rows.
PITOT_EXPORT Intervals StreamBusy(const Trace& trace, uint32_t stream);
// `device` kNone: of streams whose device is unknown.
PITOT_EXPORT Intervals DeviceBusy(const Trace& trace, uint32_t device);

// Clock check (I7): how much later than their calls things on a device began, of those that began between two moments.
// Collectors convert a GPU's time to CLOCK_MONOTONIC; `smallest_ns` < 0 says that this is early by at least so much,
// and how it differs between parts of a window says how the clocks drift. The conversion is late by at most
// `smallest_ns`. Spans are left out: their times come by another way.
struct LaunchLag {
  uint64_t rows = 0;   // whose calls are known; 0: nothing is known
  uint64_t early = 0;  // of those, that began before their calls
  int64_t smallest_ns = 0;
};
// `device` kNone: of streams whose device is unknown. O(rows).
PITOT_EXPORT LaunchLag FindLaunchLag(const Trace& trace, uint32_t device, int64_t begin_ns = INT64_MIN,
                                     int64_t end_ns = INT64_MAX);

// GPU time: how long GPUs worked for batches and requests, in whole ns.
//
// A batch's is the length of the union of what the calls made in its context caused (rows of `gpu`), wherever and
// whenever that ran; nothing is cut at the window or at the batch's end. It is shared between the batch's members:
//  * Each ns is divided equally between the requests that were members then, from join to leave. One that stayed to the
//    batch's end (leave 0) stays until all the batch's work is done, which may be after that.
//  * A ns in which there was no member is divided equally between all requests that were ever members.
//  * The exact shares are rounded down, and the ns that are left go one each to the largest fractions, of equal ones to
//    the lower request id: the shares of a batch's members add up to its GPU time exactly, and do not depend on the
//    order of rows.
// What calls in a request's own context, outside of batches, caused is the request's whole. A request's GPU time is
// that and its shares of all its batches. Two batches that work at once each count the time: requests' times may add up
// to more than a device was busy.
//
// Spans (GpuKind::kSpan) count for nothing where other rows are there and four fifths or more of the time of the batch,
// or of the request outside of batches, are known to have been recorded (CoverageIndex). Elsewhere what is missing may
// be most of it, and the union of spans and other rows is taken, shared likewise.
class PITOT_EXPORT GpuTime {
 public:
  struct Share {
    uint32_t request;
    int64_t ns;
  };
  // O(n log n). The trace must outlive nothing.
  explicit GpuTime(const Trace& trace);
  int64_t Batch(uint32_t batch) const { return batches_[batch]; }
  int64_t Request(uint32_t request) const { return requests_[request]; }
  // Whether CUDA events are in that, so that gaps between kernels are in it.
  bool IsByEvents(uint32_t batch) const { return by_events_[batch]; }
  // What of Request is from CUDA events.
  int64_t RequestByEvents(uint32_t request) const { return requests_by_events_[request]; }
  // One for each request that was a member, by id.
  const std::vector<Share>& Shares(uint32_t batch) const { return shares_[batch]; }

 private:
  std::vector<int64_t> batches_, requests_, requests_by_events_;
  std::vector<bool> by_events_;  // of batches
  std::vector<std::vector<Share>> shares_;
};

// How much of what GPUs did for a request was recorded kernel by kernel.
struct KernelCoverage {
  bool is_known = false;
  int64_t covered_ns = 0;
  int64_t ran_ns = 0;  // its batches' time on their executors; without batches its own
  bool IsWhole() const { return is_known && covered_ns == ran_ns; }  // no GPU time then means none
};
class PITOT_EXPORT CoverageIndex {
 public:
  // O(n log n). The trace must outlive nothing.
  explicit CoverageIndex(const Trace& trace);
  // Whether a GPU was there to be recorded; where not, there is nothing to say.
  bool HasGpu() const { return has_gpu_; }
  // Whether the trace is from a dump that is damaged, or was when it was recovered: how much is missing is not known.
  bool IsDamaged() const { return is_damaged_; }
  // Of [begin, end) of each batch that the request was in (of the request itself, if of none), added up. Covered is
  // what was recorded at Depth::kKernels or deeper, and at Depth::kGraphs where no graph-level record of the batch
  // overlaps, nor anything whose call, or its context, is unknown: that may be of any batch, as all is there that a
  // graph did not launch. At Depth::kKernels that holds of what has no call, unless all of its own calls are there.
  // What any of `gpu_losses` overlaps is not covered, but what was lost of devices that it did not work on: known where
  // all of its time was recorded by kernel, no event was lost in it, and each call that put work on a device has some
  // of it. Nor is the time from which the batch's thread (the threads where the request began and ended) lost events:
  // the calls are among them. Unknown where nothing says how deep any of that time was recorded, no time passed, the
  // trace is damaged, or no batch is known of a request in whose time any thread lost events, where there are batches;
  // where it is said of a part only, the rest is not covered. `index` is of the same trace.
  KernelCoverage Of(const RequestIndex& index, uint32_t request) const;
  // Whether four fifths or more of the batch's time, or of the request's own, is known to have been recorded: by kernel
  // or, what hides no GPU time, by graph; and, where only launches of graphs were recorded, whether what GPUs did
  // in that time for nobody known is a fifth or less of that and what they did for it.
  bool IsMostlyRecorded(uint32_t batch) const { return IsMostly(batches_[batch]); }
  bool IsOwnMostlyRecorded(uint32_t request) const { return IsMostly(requests_[request]); }
  // Whether what a device (kNone: any) did for nobody known, or lost, may be the request's: that of one that neither
  // its batches nor it itself worked on is not, where these are known, as in Of.
  bool MayBeOf(uint32_t request, uint32_t device) const {
    return device >= kAnyDevice || (devices_[request] >> device & 1) != 0;
  }

 private:
  struct Times {
    int64_t covered_ns = 0;
    int64_t ran_ns = 0;
    uint64_t devices = ~uint64_t{0};  // it worked on, by bit; all: not known
    int64_t recorded_ns = 0;          // covered, and where graphs hide kernels
    int64_t worked_ns = 0;            // GPUs, for it
    int64_t nobodys_ns = 0;           // they did something at Depth::kGraphs, for whom is not known
    bool is_told = false;             // how deep any of it was recorded
  };
  bool IsMostly(const Times& times) const {
    return times.is_told && !is_damaged_ && times.recorded_ns >= times.ran_ns - times.ran_ns / 5 &&
           times.nobodys_ns <= times.worked_ns / 4;
  }
  static constexpr uint32_t kAnyDevice = 63;  // and later ones have no bit of their own
  bool has_gpu_ = false, is_damaged_ = false;
  std::vector<Times> batches_, requests_;
  std::vector<uint64_t> devices_;  // of requests and their batches
};

// In how much of some time a framework's operators were recorded. Unknown where no collector said so: none was added,
// or the dump is older than 1.5.
struct OperatorCoverage {
  bool is_known = false;
  int64_t covered_ns = 0;
  int64_t ran_ns = 0;
  uint64_t batches = 0;
  uint64_t recorded_batches = 0;  // of those, in four fifths of whose time or more they were
};
// When operators were recorded, and when they were not, as collectors said. Dumps before 1.5, and traces of PyTorch's
// profiler, say it of GPUs and operators together.
class PITOT_EXPORT OperatorTimes {
 public:
  // O(n log n). The trace must outlive nothing.
  explicit OperatorTimes(const Trace& trace);
  Intervals NotRecorded() const { return Difference(told_, recorded_); }
  // Of the batches that the request was in, added up (of the request itself, if of none); of the window for kNone.
  // Without the time of which a thread's events were lost: a batch's thread's, and of the window any that ran
  // operators. Both are of the same trace.
  OperatorCoverage Of(const Trace& trace, const RequestIndex& index, uint32_t request) const;

 private:
  bool is_of_operators_;
  Intervals told_, recorded_;
  std::vector<Intervals> kept_;  // of recorded_, what of a thread's is not lost
  Intervals kept_of_all_;        // by each thread that ran operators
};

// Counters (of `counters` and `samples`) between moments. A sample holds until the next one.
class PITOT_EXPORT CounterIndex {
 public:
  // O(samples). The trace must outlive this.
  explicit CounterIndex(const Trace& trace);
  // What it was at `at_ns`, and the most from `begin_ns` to `end_ns`, both included; nothing before its first sample.
  // O(log n), and of the second the samples between.
  std::optional<double> At(uint32_t counter, int64_t at_ns) const;
  std::optional<double> Most(uint32_t counter, int64_t begin_ns, int64_t end_ns) const;

 private:
  uint32_t After(uint32_t counter, int64_t at_ns) const;  // the first sample later than that
  const Trace& trace_;
  std::vector<uint32_t> starts_;
};

// How much memory an allocator had given out at most while a request was worked on, by whomever: until it was queued or
// its first batch began, in its batches, in events of its own context, and after its last batch; of one in no batch
// from its beginning to its end. Allocators are counters in bytes whose name ends in "allocated".
struct MemoryPeak {
  uint32_t counter = kNone;
  uint64_t most_bytes = 0;
  uint64_t before_bytes = 0;  // when it began
};
// One for each allocator that says something of that time. Both indexes are of the same trace.
PITOT_EXPORT std::vector<MemoryPeak> MemoryPeaksOf(const Trace& trace, const RequestIndex& requests,
                                                   const CounterIndex& counters, uint32_t request);

}  // namespace model
PITOT_NAMESPACE_END

#endif  // PITOT_MODEL_INDEX_H_
