// SPDX-License-Identifier: Apache-2.0
//
// What GPUs did, as a walk asks for it: what a call waited for, what was before an operation, whose it was, and how
// long its like usually take.
#ifndef PITOT_LIB_ANALYZE_BLAME_WALK_GPU_H_
#define PITOT_LIB_ANALYZE_BLAME_WALK_GPU_H_

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "model/held.h"
#include "pitot/analyze/why.h"
#include "pitot/model/gpu_waits.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// What a call of the GPU's API is for a request that is in it.
enum class CallClass : uint8_t {
  kOther,
  kLaunch,        // returns once the work is enqueued; copies and sets that do not block, too
  kSync,          // does nothing but wait
  kBlockingCopy,  // waits for its own copy
  kFree,          // waits for the device, then frees
  kAlloc,
  kLoad,  // loads or compiles code
};

inline bool IsWaiting(CallClass call) {
  return call == CallClass::kSync || call == CallClass::kBlockingCopy || call == CallClass::kFree;
}

class GpuOps {
 public:
  // O(n log n). The trace must outlive this. CUDA events (GpuKind::kSpan) are left out where anything else was
  // recorded: they have gaps of their own.
  GpuOps(const model::Trace& trace, const BlameOptions& options);

  CallClass ClassOf(uint32_t call) const;
  int64_t EndNs(uint32_t op) const { return trace_.gpu.begin_ns[op] + trace_.gpu.duration_ns[op]; }

  // What calls waited for.
  const model::GpuWaits& waits() const { return waits_; }
  // The operation before `op` on its stream; kNone if there is none.
  uint32_t Previous(uint32_t op) const;
  // Of other streams of the device, of what `is_wanted(op)` says, the operation that ended last in `when` (after its
  // begin, and not after its end); kNone: none did. O(log n), and of those that ended in it.
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
  // Whether `op` may have to wait until `other`, of another stream of its device, is done: both are work of its
  // multiprocessors, or copies in one direction, which one engine does.
  bool MayHoldUp(uint32_t other, uint32_t op) const;
  // Of other streams of the device, of what `is_other(op)` says, the operation that ran in `when` and ended last;
  // kNone: none did. O(log n) of each stream, and of those that ran after it.
  template <class IsOther> uint32_t RanLast(uint32_t op, model::Interval when, const IsOther& is_other) const {
    uint32_t last = model::kNone;
    for (uint32_t stream = 0; stream < streams_.size(); ++stream) {
      if (!IsBeside(stream, op)) continue;
      const std::vector<uint32_t>& ops = streams_[stream];
      auto at = std::partition_point(ops.begin(), ops.end(),
                                     [&](uint32_t other) { return trace_.gpu.begin_ns[other] < when.end_ns; });
      // On a stream one ends before the next begins, but for what contradicts itself.
      while (at != ops.begin() && EndNs(*(at - 1)) > when.begin_ns && !is_other(*(at - 1))) --at;
      if (at == ops.begin() || EndNs(*(at - 1)) <= when.begin_ns) continue;
      if (last == model::kNone || EndNs(*(at - 1)) > EndNs(last)) last = *(at - 1);
    }
    return last;
  }
  // Where a launch that waited for room was let in: the operation of its stream that began last in it, by `by_ns`.
  uint32_t MadeRoom(uint32_t call, int64_t by_ns) const;
  // How many operations of its stream had been launched and were not done when `op` was launched.
  uint32_t Ahead(uint32_t op) const;

  // From the first call that was made for the request itself, not for a batch, to the end of the last; empty if none
  // was.
  model::Interval CallsOf(uint32_t request) const { return calls_of_[request]; }

  // The call that allocated or freed memory, of any thread, for which the device stood still from `since_ns` until `op`
  // began: nothing ran on it, and `op` began in the call or no later after it than twice as long as it took. kNone:
  // none. O(log n) of each stream.
  uint32_t AllocationBefore(uint32_t op, int64_t since_ns) const;

  // How many operations its calls, and those of the batch, caused.
  uint32_t OpsOfRequest(uint32_t request) const { return ops_of_request_[request]; }
  uint32_t OpsOfBatch(uint32_t batch) const { return ops_of_batch_[batch]; }

  // Whether work may have been on a GPU in that time that was launched and of which there is no record: until its
  // thread waited for a GPU.
  bool MayHaveLost(model::Interval when) const;

  // How long an operation of this kernel and shape usually takes: the median; -1 if too few are known.
  int64_t UsualNs(uint32_t op) const;
  // The SM clock of its device in its middle, and the counter that says so; usually: the median of the device's
  // operations. 0 where that is not known.
  struct Clock {
    double now = 0, usual = 0;
    uint32_t counter = model::kNone;
  };
  Clock ClockOf(uint32_t op) const;
  // Whether times of GPUs can be compared with the host's (a39).
  bool are_times_known() const { return are_times_known_; }
  int64_t MedianLaunchNs() const { return median_launch_ns_; }
  // For how long of `op` any operation of others was on the device: by what `is_other(op)` says.
  template <class IsOther> int64_t OverlapNs(uint32_t op, const IsOther& is_other) const {
    model::Intervals others;
    VisitOverlaps(op, [&](uint32_t other) {
      if (is_other(other)) others.push_back({trace_.gpu.begin_ns[other], EndNs(other)});
    });
    return model::TotalNs(model::Intersection(model::Union(std::move(others)), {{trace_.gpu.begin_ns[op], EndNs(op)}}));
  }
  // The row that launched it; rows of `gpu` that `call` caused.
  const model::LaunchIndex& launches() const { return launches_; }

 private:
  uint32_t Device(uint32_t op) const { return trace_.streams[trace_.gpu.stream[op]].device; }
  uint64_t KeyOf(uint32_t op) const {
    return (static_cast<uint64_t>(trace_.gpu.name[op]) << 32) | trace_.gpu.shape[op];
  }
  bool IsBeside(uint32_t stream, uint32_t op) const {
    return stream != trace_.gpu.stream[op] && trace_.streams[stream].device == Device(op);
  }
  template <class Visit> void VisitOverlaps(uint32_t op, const Visit& visit) const {
    for (uint32_t stream = 0; stream < streams_.size(); ++stream) {
      if (!IsBeside(stream, op)) continue;
      // On a stream one ends before the next begins, but for what contradicts itself.
      for (uint32_t at = FirstEndingAfter(stream, trace_.gpu.begin_ns[op]); at < streams_[stream].size(); ++at) {
        const uint32_t other = streams_[stream][at];
        if (trace_.gpu.begin_ns[other] >= EndNs(op)) break;
        visit(other);
      }
    }
  }
  uint32_t FirstEndingAfter(uint32_t stream, int64_t at_ns) const;
  struct DeviceClock {
    uint32_t counter = model::kNone;
    std::vector<model::Held> held;
    double usual = 0;
  };
  struct Allocation {
    int64_t begin_ns;
    uint32_t call, device;  // kNone: of nobody knows which
  };
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
  std::vector<model::Interval> calls_of_;       // by request
  std::vector<uint32_t> ops_of_request_, ops_of_batch_;
  std::unordered_map<uint64_t, int64_t> usual_ns_;
  int64_t median_launch_ns_ = 0;
  const bool are_times_known_;
  std::vector<DeviceClock> clocks_;      // by device
  model::Intervals lost_;                // when work without a record may have run
  std::vector<Allocation> allocations_;  // by begin
};

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_BLAME_WALK_GPU_H_
