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

// For each thread the innermost scope at every moment, as non-overlapping segments in order. Moments outside every
// scope have no segment. Where scopes of a thread overlap without nesting (closed out of order), the one that began
// last is innermost.
struct Segment {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  uint32_t event = kNone;
};
// For one thread from `begin_ns` to `end_ns`, cut there.
// Memory: proportional to its scopes then. O(events of the thread).
PITOT_EXPORT std::vector<Segment> FlattenThread(const Trace& trace, uint32_t thread, int64_t begin_ns = INT64_MIN,
                                                int64_t end_ns = INT64_MAX);
// For all threads.
class PITOT_EXPORT ThreadFlatten {
 public:
  // O(n log n). Keeps no reference to the trace: it copies all it needs.
  explicit ThreadFlatten(const Trace& trace);
  // The thread's segments, in order; empty if it recorded no scopes.
  const std::vector<Segment>& Thread(uint32_t thread) const { return threads_[thread]; }
  // The segment that contains `at_ns`, otherwise the last one before it; kNone if there is none. O(log n).
  uint32_t Find(uint32_t thread, int64_t at_ns) const;

 private:
  std::vector<std::vector<Segment>> threads_;
};

// Rows of a table, in order; valid as long as their index.
struct RowRange {
  const uint32_t* first;
  const uint32_t* last;
  const uint32_t* begin() const { return first; }
  const uint32_t* end() const { return last; }
  uint32_t size() const { return static_cast<uint32_t>(last - first); }
};

// Everything that belongs to a request. Its events ran in its context, or in that of one of its batches while the
// request was open.
class PITOT_EXPORT RequestIndex {
 public:
  explicit RequestIndex(const Trace& trace);
  using Range = RowRange;
  Range Events(uint32_t request) const { return Of(events_, event_starts_, request); }    // in its own context
  Range Batches(uint32_t request) const { return Of(batches_, batch_starts_, request); }  // of which it was a member
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

// The GPU work each call caused. One call may have caused many rows (a graph's nodes).
class PITOT_EXPORT LaunchIndex {
 public:
  // O(n). Keeps no reference to the trace.
  explicit LaunchIndex(const Trace& trace);
  // Rows of `gpu`, by stream and begin.
  RowRange Gpu(uint32_t call) const { return {rows_.data() + starts_[call], rows_.data() + starts_[call + 1]}; }

 private:
  std::vector<uint32_t> rows_, starts_;
};

// Calls that wait for GPUs: synchronisations, and copies by a call that is not asynchronous. Copies to or from pageable
// memory also block their caller, whatever the call (CUDA's API synchronization behavior).
class PITOT_EXPORT WaitingCalls {
 public:
  // O(calls + rows of `gpu`). Keeps no reference to the trace.
  explicit WaitingCalls(const Trace& trace);
  bool Has(uint32_t call) const { return waits_[call]; }

 private:
  std::vector<bool> waits_;
};

// Whether a row of `gpu` is a copy to or from pageable memory, by the name that collectors and readers give it.
PITOT_EXPORT bool IsPageableCopy(const Trace& trace, uint32_t row);

// Whether a row of `gpu` is unattributed: no call of a known batch or request caused it. Spans never are.
PITOT_EXPORT bool IsNobodys(const Trace& trace, uint32_t row);

// When a stream, or any stream of a device, was active. The time between two intervals of a set is an idle gap. Spans
// are left out, because they include gaps. O(n log n) of the rows.
PITOT_EXPORT Intervals StreamBusy(const Trace& trace, uint32_t stream);
// `device` kNone: streams whose device is unknown.
PITOT_EXPORT Intervals DeviceBusy(const Trace& trace, uint32_t device);

// A check of the clocks: how much later than their calls activities of a device began, for those that began between two
// moments. Collectors convert a GPU's time to CLOCK_MONOTONIC. If `smallest_ns` < 0, converted times are early by at
// least that much. They are late by at most `smallest_ns`. Its difference between parts of a window shows the drift.
// Spans are left out: their times come from elsewhere.
struct LaunchLag {
  uint64_t rows = 0;   // rows with a known call; 0: nothing is known
  uint64_t early = 0;  // those that began before their calls
  int64_t smallest_ns = 0;
  // Rows that began late on a device with nothing else to do: it was idle for `late_ns` or more right before, or for
  // half of the time since the call. Others waited for earlier work or an event, which says nothing about clocks.
  uint64_t waited_for_nothing = 0;
};
// `device` kNone: streams whose device is unknown. `late_ns` > 0: counts `waited_for_nothing`, in O(n log n); otherwise
// O(rows).
PITOT_EXPORT LaunchLag FindLaunchLag(const Trace& trace, uint32_t device, int64_t begin_ns = INT64_MIN,
                                     int64_t end_ns = INT64_MAX, int64_t late_ns = 0);

class CoverageIndex;

// How long GPUs worked for batches and requests, in whole ns.
//
// A batch's GPU time is the length of the union of all rows of `gpu` caused by calls in its context, on any device and
// at any time. Nothing is cut at the window or at the batch's end. The batch's members share it:
//  * Each ns is divided equally between the members at that time, from join to leave. A member that stayed to the
//    batch's end (leave 0) stays until all the batch's work is done, which may be later.
//  * A ns without any member is divided equally between all requests that were ever members.
//  * The exact shares are rounded down, and each ns that is left goes to the largest fraction, for equal fractions to
//    the lower request id. The shares of a batch's members therefore add up to its GPU time exactly, and do not depend
//    on the order of rows.
// Work caused by calls in a request's own context, outside of batches, counts fully for the request. A request's GPU
// time is that plus its shares of all its batches. Two batches that work at once both count the time, so requests'
// times may add up to more than a device was busy.
//
// Spans (GpuKind::kSpan) do not count if there are other rows and at least four fifths of the time are known to have
// been recorded (CoverageIndex). That is the time of the batch, or of the request outside of batches. With less, most
// of the work may be missing; the union of spans and other rows then counts, shared in the same way.
class PITOT_EXPORT GpuTime {
 public:
  struct Share {
    uint32_t request;
    int64_t ns;
  };
  // O(n log n). Keeps no reference to the trace, or to the index of its coverage.
  explicit GpuTime(const Trace& trace);
  GpuTime(const Trace& trace, const CoverageIndex& coverage);
  int64_t Batch(uint32_t batch) const { return batches_[batch]; }
  int64_t Request(uint32_t request) const { return requests_[request]; }
  // Whether it comes from CUDA events, and so includes gaps between kernels.
  bool IsByEvents(uint32_t batch) const { return by_events_[batch]; }
  // The part of Request that comes from CUDA events.
  int64_t RequestByEvents(uint32_t request) const { return requests_by_events_[request]; }
  // One for each request that was a member, by id.
  const std::vector<Share>& Shares(uint32_t batch) const { return shares_[batch]; }

 private:
  std::vector<int64_t> batches_, requests_, requests_by_events_;
  std::vector<bool> by_events_;  // by batch
  std::vector<std::vector<Share>> shares_;
};

// How much of a request's GPU time was recorded kernel by kernel.
struct KernelCoverage {
  bool is_known = false;
  int64_t covered_ns = 0;
  int64_t ran_ns = 0;  // time of its batches on their executors; without batches its own
  bool IsWhole() const { return is_known && covered_ns == ran_ns; }  // then no GPU time means none
};
class PITOT_EXPORT CoverageIndex {
 public:
  // O(n log n). Keeps no reference to the trace.
  explicit CoverageIndex(const Trace& trace);
  // Whether there was a GPU to record; if not, coverage has no meaning.
  bool HasGpu() const { return has_gpu_; }
  // Whether the trace is from a dump that is damaged, or was when it was recovered. The extent of the loss is unknown.
  bool IsDamaged() const { return is_damaged_; }
  // Adds up [begin, end) of each batch of the request; without batches, that of the request itself.
  //
  // Covered is time recorded at Depth::kKernels or deeper, and time at Depth::kGraphs without an overlapping
  // graph-level record of the batch. At kGraphs, overlapping rows whose call or context is unknown also exclude time:
  // only launches of graphs have their calls there, so such a row may belong to any batch. At kKernels this holds for
  // rows without a call, unless all calls of the batch are known.
  //
  // Time that overlaps any of `gpu_losses` is not covered. Losses of devices that it did not use do not count. Its
  // devices are known if all of its time was recorded by kernel without lost events, and each call that put work on a
  // device has some of that work. Time in which the batch's thread lost events is not covered either, because calls are
  // among them; for a request these are the threads of its begin and end.
  //
  // Coverage is unknown if no depth is recorded for any of the time, if no time passed, or if the trace is damaged. It
  // is also unknown if there are batches, none is known for the request, and any thread lost events in its time. Time
  // without a recorded depth is not covered if other parts have one. `index` is of the same trace.
  KernelCoverage Of(const RequestIndex& index, uint32_t request) const;
  // Whether at least four fifths of the time of the batch, or of the request itself, are known to have been recorded:
  // by kernel or, if that hides no GPU time, by graph. If only launches of graphs were recorded, unattributed GPU work
  // must also be at most a fifth of that work plus the work for the batch or request.
  bool IsMostlyRecorded(uint32_t batch) const { return IsMostly(batches_[batch]); }
  bool IsOwnMostlyRecorded(uint32_t request) const { return IsMostly(requests_[request]); }
  // Whether unattributed or lost work on `device` (kNone: any) could belong to `request`. It cannot if the devices of
  // the request and its batches are known, as in Of, and it is not one of them.
  bool MayBeOf(uint32_t request, uint32_t device) const {
    return device >= kAnyDevice || (devices_[request] >> device & 1) != 0;
  }

 private:
  struct Times {
    int64_t covered_ns = 0;
    int64_t ran_ns = 0;
    uint64_t devices = ~uint64_t{0};  // devices it used, by bit; all: unknown
    int64_t recorded_ns = 0;          // covered, and time in which graphs hide kernels
    int64_t worked_ns = 0;            // of GPUs, for it
    int64_t nobodys_ns = 0;           // unattributed GPU work at Depth::kGraphs
    bool is_told = false;             // whether a depth is recorded for any of it
  };
  bool IsMostly(const Times& times) const {
    return times.is_told && !is_damaged_ && times.recorded_ns >= times.ran_ns - times.ran_ns / 5 &&
           times.nobodys_ns <= times.worked_ns / 4;
  }
  class Evidence;
  static constexpr uint32_t kAnyDevice = 63;  // this and later devices have no bit of their own
  bool has_gpu_ = false, is_damaged_ = false;
  std::vector<Times> batches_, requests_;
  std::vector<uint64_t> devices_;  // by request, including its batches
};

// How much of a stretch of time had operators of a framework recorded. Unknown if no collector reported it: there was
// none, or the dump is older than 1.5.
struct OperatorCoverage {
  bool is_known = false;
  int64_t covered_ns = 0;
  int64_t ran_ns = 0;
  uint64_t batches = 0;
  uint64_t recorded_batches = 0;  // those with at least four fifths of their time recorded
};
// When operators were recorded, and when not, as reported by collectors. Dumps before 1.5, and traces of PyTorch's
// profiler, report it for GPUs and operators together.
class PITOT_EXPORT OperatorTimes {
 public:
  // O(n log n). Keeps no reference to the trace.
  explicit OperatorTimes(const Trace& trace);
  Intervals NotRecorded() const { return Difference(told_, recorded_); }
  // Adds up the batches of the request (without batches, the request itself); for kNone it is the window. Excludes time
  // in which events were lost: those of a batch's thread; for the window those of any thread that ran operators. Both
  // arguments are of the same trace.
  OperatorCoverage Of(const Trace& trace, const RequestIndex& index, uint32_t request) const;

 private:
  bool is_of_operators_;
  Intervals told_, recorded_;
  std::unordered_map<uint32_t, Intervals> kept_;  // by thread with losses: recorded_ without them
  Intervals kept_of_all_;                         // recorded_ without losses of any thread that ran operators
};

// Values of counters (`counters` and `samples`) over time. A sample holds until the next one.
class PITOT_EXPORT CounterIndex {
 public:
  // O(samples). The trace must outlive this.
  explicit CounterIndex(const Trace& trace);
  // The value at `at_ns`, and the maximum from `begin_ns` to `end_ns`, both included; empty before the first sample.
  // O(log n); Most also takes the samples in between.
  std::optional<double> At(uint32_t counter, int64_t at_ns) const;
  std::optional<double> Most(uint32_t counter, int64_t begin_ns, int64_t end_ns) const;

 private:
  uint32_t After(uint32_t counter, int64_t at_ns) const;  // the first later sample
  const Trace& trace_;
  std::vector<uint32_t> starts_;
};

// The peak of an allocator's memory while a request was worked on, whoever allocated it. This covers four times: until
// it was queued or its first batch began, in its batches, in events of its own context, and after its last batch.
// Without a batch it is from the request's begin to its end. Allocators are counters in bytes whose name ends in
// "allocated".
struct MemoryPeak {
  uint32_t counter = kNone;
  uint64_t most_bytes = 0;
  uint64_t before_bytes = 0;  // when it began
};
// One for each allocator with data for that time. Both indexes are of the same trace.
PITOT_EXPORT std::vector<MemoryPeak> MemoryPeaksOf(const Trace& trace, const RequestIndex& requests,
                                                   const CounterIndex& counters, uint32_t request);

}  // namespace model
PITOT_NAMESPACE_END

#endif  // PITOT_MODEL_INDEX_H_
