// SPDX-License-Identifier: Apache-2.0
//
// GPU facts for a walk: the operation behind a call's wait, the one before an operation, owners, and usual lengths.
#ifndef PITOT_LIB_ANALYZE_BLAME_WALK_GPU_H_
#define PITOT_LIB_ANALYZE_BLAME_WALK_GPU_H_

#include <algorithm>
#include <cstdint>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "analyze/blame/namespace.h"
#include "analyze/facts/quality.h"
#include "base/call_class.h"
#include "model/held.h"
#include "pitot/analyze/why.h"
#include "pitot/model/gpu_waits.h"

namespace pitot::blame {

using base::CallClass;

inline bool IsWaiting(CallClass call_class) {
  return base::IsSynchronization(call_class) || call_class == CallClass::kBlockingCopy ||
         call_class == CallClass::kFree;
}
// Returns once something is enqueued.
inline bool Enqueues(CallClass call_class) {
  return call_class == CallClass::kLaunch || call_class == CallClass::kCopy || call_class == CallClass::kEnqueue;
}

class GpuOps {
 public:
  // O(n log n). The trace must outlive this. CUDA events (GpuKind::kSpan) are left out if anything else was recorded:
  // they have gaps of their own.
  GpuOps(const model::Trace& trace, const BlameOptions& options);

  // By its name; kBlockingCopy for a copy that is known to have waited.
  CallClass ClassOf(uint32_t call) const;
  // Whether a row of `gpu` is a kernel or graph that moves data between GPUs, by its name.
  bool IsCommunication(uint32_t op) const { return communicates_[trace_.gpu.name[op]]; }
  int64_t EndNs(uint32_t op) const { return trace_.gpu.begin_ns[op] + trace_.gpu.duration_ns[op]; }

  // The operations calls waited for.
  const model::GpuWaits& waits() const { return waits_; }
  // The operation before `op` on its stream; kNone if there is none.
  uint32_t Previous(uint32_t op) const;
  // The operation with `is_wanted(op)` that ended last in `when` (after its begin, and not after its end) on other
  // streams of the device; kNone: none did. O(log n), and the number that ended in it.
  template <class IsWanted> uint32_t EndedLast(uint32_t op, model::Interval when, const IsWanted& is_wanted) const {
    const model::RowRange ends = waits_.EndsOn(Device(op));
    const uint32_t* after =
        std::partition_point(ends.begin(), ends.end(), [&](uint32_t other) { return EndNs(other) <= when.end_ns; });
    while (after != ends.begin() && EndNs(*--after) > when.begin_ns) {
      const uint32_t other = *after;
      if (other != op && trace_.gpu.stream[other] != trace_.gpu.stream[op] && is_wanted(other)) return other;
    }
    return model::kNone;
  }
  // Whether `op` may have to wait for the end of `other`, on another stream of its device. It may if both are work of
  // its multiprocessors, or copies in the same direction, which one engine does.
  bool MayHoldUp(uint32_t other, uint32_t op) const;
  // The operation with `is_other(op)` that ran in `when` and ended last on other streams of the device; kNone: none
  // did. O(log n) for each stream, and the number that ran after it.
  template <class IsOther> uint32_t RanLast(uint32_t op, model::Interval when, const IsOther& is_other) const {
    uint32_t last = model::kNone;
    for (uint32_t stream = 0; stream < streams_.size(); ++stream) {
      if (!IsBeside(stream, op)) continue;
      const std::vector<uint32_t>& ops = streams_[stream];
      auto at = std::partition_point(ops.begin(), ops.end(),
                                     [&](uint32_t other) { return trace_.gpu.begin_ns[other] < when.end_ns; });
      // Operations of a stream follow each other, unless the trace contradicts itself.
      while (at != ops.begin() && EndNs(*(at - 1)) > when.begin_ns && !is_other(*(at - 1))) --at;
      if (at == ops.begin() || EndNs(*(at - 1)) <= when.begin_ns) continue;
      if (last == model::kNone || EndNs(*(at - 1)) > EndNs(last)) last = *(at - 1);
    }
    return last;
  }
  // The operation that let in a launch waiting for room: the last of its stream to begin during the call, by `by_ns`.
  uint32_t MadeRoom(uint32_t call, int64_t by_ns) const;
  // How many operations of its stream had been launched and were not done when `op` was launched.
  uint32_t Ahead(uint32_t op) const;

  // From the first call made for the request itself, not for a batch, to the end of the last; empty if there was none.
  model::Interval CallsOf(uint32_t request) const { return calls_of_[request]; }

  // The call of any thread that allocated or freed memory and kept the device idle from `since_ns` until `op` began.
  // Nothing ran on the device, and `op` began in the call, or after it within twice the call's length. kNone: none.
  // O(log n) for each stream.
  uint32_t AllocationBefore(uint32_t op, int64_t since_ns) const;

  // The batch's longest span; kNone: it has none, or something else was recorded.
  uint32_t LongestSpanOf(uint32_t batch) const { return span_of_batch_[batch]; }
  bool IsSpan(uint32_t op) const { return trace_.gpu.kind[op] == model::GpuKind::kSpan; }
  // Whether a synchronisation or a blocking copy was recorded for the batch; and for any batch of its executor.
  bool HasWaits(uint32_t batch) const { return waits_of_batch_[batch] != 0; }
  bool HasWaitsOfExecutor(uint32_t batch) const {
    return waiting_executors_.count(trace_.batches[batch].executor) != 0;
  }
  // Whether operations of GPUs were recorded all the time.
  bool AreOperationsRecorded(int64_t begin_ns, int64_t end_ns) const {
    return has_operations_ && facts::DepthOf(trace_, begin_ns, end_ns) != Depth::kScopes;
  }

  // How many operations its calls, and those of the batch, caused. Spans are none.
  uint32_t OpsOfRequest(uint32_t request) const { return ops_of_request_[request]; }
  uint32_t OpsOfBatch(uint32_t batch) const { return ops_of_batch_[batch]; }
  // How many of these calls waited for a GPU: synchronisations, and copies that wait.
  uint32_t WaitsOfRequest(uint32_t request) const { return waits_of_request_[request]; }
  uint32_t WaitsOfBatch(uint32_t batch) const { return waits_of_batch_[batch]; }

  // Whether launched work without a record may have been on a GPU in that time: until its thread waited for a GPU.
  bool MayHaveLost(model::Interval when) const;

  // The usual length of an operation of this kernel and shape, or of a span of this name in batches of this size: the
  // median, or what the process had learned before the window if it holds too few; -1 if too few are known.
  int64_t UsualNs(uint32_t op) const;
  // Whether that was learned before the window.
  bool IsUsualKept(uint32_t op) const { return usual_kept_.contains(KeyOf(op)); }
  // Such work in another trace has the same name and number; a kernel's is a hash of its shape.
  uint32_t LikeNumber(uint32_t op) const;
  // The SM clock of its device in its middle, and the counter recording it; `usual` is the median of the device's
  // kernels. 0 if unknown.
  struct Clock {
    double now = 0, usual = 0;
    uint32_t counter = model::kNone;
  };
  Clock ClockOf(uint32_t op) const;
  // Whether times of GPUs can be compared with the host's (a39).
  bool are_times_known() const { return are_times_known_; }
  int64_t MedianLaunchNs() const { return median_launch_ns_; }
  // Whether a call is of a batch whose launches were counted: only slow ones have a record, and the median is not
  // known.
  bool IsLaunchCounted(uint32_t call) const {
    const uint32_t batch = trace_.calls.batch[call];
    return batch != model::kNone && trace_.batches[batch].launches != 0 && ops_of_batch_[batch] == 0;
  }
  // How long operations with `is_other(op)` were on other streams of the device during `op`, within `when`; and the one
  // that was there longest.
  struct Overlap {
    int64_t ns = 0;
    uint32_t longest = model::kNone;
  };
  template <class IsOther> Overlap Beside(uint32_t op, model::Interval when, const IsOther& is_other) const {
    return OverlapOf(when, is_other, [&](const auto& visit) { VisitOverlaps(op, visit); });
  }
  // How long operations with `is_other(op)` were on a stream within `when`; and the one at its head for longest.
  // Kernels follow each other there. Spans overlap if several threads launch on it: then the head is what ends first,
  // because a stream works in the order of launches. O(log n), and n log n of those within `when`.
  template <class IsOther> Overlap OnStream(uint32_t stream, model::Interval when, const IsOther& is_other) const {
    std::vector<uint32_t> others;
    VisitStream(stream, when, [&](uint32_t other) {
      if (is_other(other)) others.push_back(other);
    });
    std::stable_sort(others.begin(), others.end(), [&](uint32_t a, uint32_t b) { return EndNs(a) < EndNs(b); });
    Overlap overlap;
    model::Intervals covered;  // by those so far, disjoint
    int64_t longest_ns = 0;
    for (const uint32_t other : others) {
      model::Interval time{std::max(trace_.gpu.begin_ns[other], when.begin_ns), std::min(EndNs(other), when.end_ns)};
      int64_t at_head_ns = time.end_ns - time.begin_ns;
      for (; !covered.empty() && covered.back().end_ns > time.begin_ns; covered.pop_back()) {
        at_head_ns -= covered.back().end_ns - std::max(covered.back().begin_ns, time.begin_ns);
        time.begin_ns = std::min(time.begin_ns, covered.back().begin_ns);
      }
      covered.push_back(time);
      overlap.ns += at_head_ns;
      if (at_head_ns <= longest_ns) continue;
      longest_ns = at_head_ns;
      overlap.longest = other;
    }
    return overlap;
  }
  model::Interval TimeOf(uint32_t op) const { return {trace_.gpu.begin_ns[op], EndNs(op)}; }
  // The row that launched an operation; the rows of `gpu` caused by a call.
  const model::LaunchIndex& launches() const { return launches_; }

 private:
  uint32_t Device(uint32_t op) const { return trace_.streams[trace_.gpu.stream[op]].device; }
  uint64_t KeyOf(uint32_t op) const {
    const uint32_t call = trace_.gpu.call[op];
    const uint32_t batch = IsSpan(op) && call != model::kNone ? trace_.calls.batch[call] : model::kNone;
    const uint32_t like = !IsSpan(op) ? trace_.gpu.shape[op] : batch != model::kNone ? members_[batch] : 0;
    return (static_cast<uint64_t>(trace_.gpu.name[op]) << 32) | like;
  }
  bool IsLonger(uint32_t op, uint32_t other) const {
    return other == model::kNone || trace_.gpu.duration_ns[op] > trace_.gpu.duration_ns[other];
  }
  bool IsBeside(uint32_t stream, uint32_t op) const {
    return stream != trace_.gpu.stream[op] && trace_.streams[stream].device == Device(op);
  }
  template <class Visit> void VisitOverlaps(uint32_t op, const Visit& visit) const {
    for (uint32_t stream = 0; stream < streams_.size(); ++stream) {
      if (!IsBeside(stream, op)) continue;
      // Operations of a stream follow each other, unless the trace contradicts itself.
      for (uint32_t at = FirstEndingAfter(stream, trace_.gpu.begin_ns[op]); at < streams_[stream].size(); ++at) {
        const uint32_t other = streams_[stream][at];
        if (trace_.gpu.begin_ns[other] >= EndNs(op)) break;
        visit(other);
      }
    }
  }
  template <class Visit> void VisitStream(uint32_t stream, model::Interval when, const Visit& visit) const {
    constexpr std::ptrdiff_t kMostBefore = 64;  // a long span of another thread may have begun before many short ones
    const std::vector<uint32_t>& ops = streams_[stream];
    auto at = std::partition_point(ops.begin(), ops.end(),
                                   [&](uint32_t op) { return trace_.gpu.begin_ns[op] < when.begin_ns; });
    at -= std::min(at - ops.begin(), kMostBefore);
    for (; at != ops.end() && trace_.gpu.begin_ns[*at] < when.end_ns; ++at) {
      if (EndNs(*at) > when.begin_ns) visit(*at);
    }
  }
  template <class IsOther, class VisitAll>
  Overlap OverlapOf(model::Interval when, const IsOther& is_other, const VisitAll& visit_all) const {
    Overlap overlap;
    model::Intervals others;
    int64_t longest_ns = 0;
    visit_all([&](uint32_t other) {
      if (!is_other(other)) return;
      const model::Interval time = {std::max(trace_.gpu.begin_ns[other], when.begin_ns),
                                    std::min(EndNs(other), when.end_ns)};
      if (time.end_ns <= time.begin_ns) return;
      others.push_back(time);
      if (time.end_ns - time.begin_ns <= longest_ns) return;
      longest_ns = time.end_ns - time.begin_ns;
      overlap.longest = other;
    });
    overlap.ns = model::TotalNs(model::Union(std::move(others)));
    return overlap;
  }
  uint32_t FirstEndingAfter(uint32_t stream, int64_t at_ns) const;
  struct DeviceClock {
    uint32_t counter = model::kNone;
    std::vector<model::Held> held;
    double usual = 0;
  };
  struct Allocation {
    int64_t begin_ns;
    uint32_t call, device;  // kNone: unknown
  };
  void FindUsual(std::unordered_map<uint64_t, std::vector<uint32_t>>* alike, uint32_t least_samples);
  void FindClocks();
  void FindLost();
  void FindAllocations();

  const model::Trace& trace_;
  model::LaunchIndex launches_;
  model::WaitingCalls waiting_;
  model::GpuWaits waits_;
  std::vector<std::vector<uint32_t>> streams_;  // rows of each, by begin
  std::vector<uint32_t> place_;                 // of each row, in its stream; kNone: left out
  std::vector<CallClass> classes_;              // by StringId of their names
  std::vector<bool> communicates_;              // likewise, for work
  std::vector<model::Interval> calls_of_;       // by request
  std::vector<uint32_t> ops_of_request_, ops_of_batch_, waits_of_request_, waits_of_batch_, members_, span_of_batch_;
  bool has_operations_ = false;
  std::set<model::StringId> waiting_executors_;  // with a recorded wait
  std::unordered_map<uint64_t, int64_t> usual_ns_;
  std::unordered_set<uint64_t> usual_kept_;  // of these, those from Trace::norms
  int64_t median_launch_ns_ = 0;
  const bool are_times_known_;
  std::vector<DeviceClock> clocks_;      // by device
  model::Intervals lost_;                // when work without a record may have run
  std::vector<Allocation> allocations_;  // by begin
};

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_WALK_GPU_H_
