// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "analyze/facts/replay.h"

namespace pitot::facts {

using model::kNone;

// The way back from the end of the window. Each step goes to something that comes before in `steps_`.
class Replay::WayBack {
 public:
  explicit WayBack(const Replay& played) : played_(played), at_ns_(played.trace_.window_begin_ns) {}

  Path Find() {
    StartAtLastEnd();
    while (at_ != At::kNothing) {
      if (at_ == At::kOpEnd) {
        LeaveOp();
      } else if (at_ == At::kCallEnd) {
        LeaveCallEnd();
      } else {
        LeaveCallBegin();
      }
    }
    SpendBetween(PathClass::kHost, played_.trace_.window_begin_ns, at_ns_);
    return std::move(path_);
  }

 private:
  enum class At : uint8_t { kNothing, kOpEnd, kCallEnd, kCallBegin };

  // If a call and work end together, at the work.
  void StartAtLastEnd() {
    for (uint32_t i = 0; i < played_.calls_.size(); ++i) {
      const int64_t end_ns = played_.call_times_[i].end_ns;
      if (end_ns > at_ns_) at_ns_ = end_ns, index_ = i, at_ = At::kCallEnd;
    }
    for (uint32_t i = 0; i < played_.ops_.size(); ++i) {
      const int64_t end_ns = played_.op_times_[i].end_ns;
      if (end_ns >= at_ns_) at_ns_ = end_ns, index_ = i, at_ = At::kOpEnd;
    }
    SpendBetween(PathClass::kEnd, at_ns_, played_.trace_.window_end_ns);
  }

  void LeaveOp() {
    const Op& op = played_.ops_[index_];
    const int64_t ns = at_ns_ - played_.op_times_[index_].begin_ns;
    if (op.of != PathClass::kCopies) path_.kernels[played_.trace_.gpu.name[op.row]] += ns;
    path_.gpu_rows.push_back(op.row);
    Spend(op.of, ns);
    at_ns_ -= ns;
    Bound by;
    const int64_t ready_ns = played_.Ready(op, &by);
    const uint32_t of = by == Bound::kCall ? op.call : by == Bound::kBefore ? op.before : op.other;
    Go(by == Bound::kNothing ? At::kNothing
       : by == Bound::kCall  ? At::kCallBegin
                             : At::kOpEnd,
       of, ready_ns, op.lag_of);
  }

  void LeaveCallEnd() {
    const Call& call = played_.calls_[index_];
    const int64_t begin_ns = played_.call_times_[index_].begin_ns;
    const int64_t ended_ns = call.awaited == kNone ? begin_ns : played_.op_times_[call.awaited].end_ns - call.early_ns;
    if (ended_ns > begin_ns) {
      Go(At::kOpEnd, call.awaited, ended_ns, PathClass::kReturn);
    } else {
      Go(At::kCallBegin, index_, begin_ns, call.awaited == kNone ? PathClass::kApi : PathClass::kReturn);
    }
  }

  void LeaveCallBegin() {
    const Call& call = played_.calls_[index_];
    if (call.anchor == kNone) {
      at_ = At::kNothing;  // the time before it is the thread's own
    } else if (call.begin_ns >= played_.calls_[call.anchor].end_ns) {
      Go(At::kCallEnd, call.anchor, played_.call_times_[call.anchor].end_ns, PathClass::kHost);
    } else {
      Go(At::kCallBegin, call.anchor, played_.call_times_[call.anchor].begin_ns, PathClass::kApi);
    }
  }

  void Go(At to, uint32_t of, int64_t to_ns, PathClass k) {
    const int64_t ns = SpendBetween(k, to_ns, at_ns_);
    if (k == PathClass::kLaunch) path_.longest_launch_ns = std::max(path_.longest_launch_ns, ns);
    at_ = to, index_ = of, at_ns_ = to_ns;
  }

  void Spend(PathClass k, int64_t ns) { path_.ns[static_cast<size_t>(k)] += ns; }

  // Time other than GPU work costs nobody anything while no request is open. Returns the rest.
  int64_t SpendBetween(PathClass k, int64_t begin_ns, int64_t end_ns) {
    const int64_t quiet_ns = played_.QuietNs(begin_ns, end_ns);
    Spend(PathClass::kNoRequest, quiet_ns);
    Spend(k, end_ns - begin_ns - quiet_ns);
    return end_ns - begin_ns - quiet_ns;
  }

  const Replay& played_;
  Path path_;
  At at_ = At::kNothing;
  uint32_t index_ = kNone;
  int64_t at_ns_;
};

Path Replay::FindPath() {
  Play({});
  return WayBack(*this).Find();
}

}  // namespace pitot::facts
