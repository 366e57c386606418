// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "analyze/facts/replay.h"

namespace pitot::facts {

using model::kNone;

Path Replay::FindPath() {
  Play({});
  Path path;
  const auto spend = [&](PathClass k, int64_t ns) { path.ns[static_cast<size_t>(k)] += ns; };
  // Time other than GPU work costs nobody anything while no request is open.
  const auto spend_between = [&](PathClass k, int64_t begin_ns, int64_t end_ns) {
    const int64_t quiet_ns = QuietNs(begin_ns, end_ns);
    spend(PathClass::kNoRequest, quiet_ns);
    spend(k, end_ns - begin_ns - quiet_ns);
    return end_ns - begin_ns - quiet_ns;
  };
  // Start at the last end; if a call and work end together, at the work.
  enum class At : uint8_t { kNothing, kOpEnd, kCallEnd, kCallBegin } at = At::kNothing;
  uint32_t index = kNone;
  int64_t at_ns = trace_.window_begin_ns;
  for (uint32_t i = 0; i < calls_.size(); ++i) {
    if (call_times_[i].end_ns > at_ns) at_ns = call_times_[i].end_ns, index = i, at = At::kCallEnd;
  }
  for (uint32_t i = 0; i < ops_.size(); ++i) {
    if (op_times_[i].end_ns >= at_ns) at_ns = op_times_[i].end_ns, index = i, at = At::kOpEnd;
  }
  spend_between(PathClass::kEnd, at_ns, trace_.window_end_ns);
  // Each step goes back to something that comes before in `steps_`.
  const auto go = [&](At to, uint32_t of, int64_t to_ns, PathClass k) {
    const int64_t ns = spend_between(k, to_ns, at_ns);
    if (k == PathClass::kLaunch) path.longest_launch_ns = std::max(path.longest_launch_ns, ns);
    at = to, index = of, at_ns = to_ns;
  };
  while (at != At::kNothing) {
    if (at == At::kOpEnd) {
      const Op& op = ops_[index];
      const int64_t ns = at_ns - op_times_[index].begin_ns;
      if (op.of != PathClass::kCopies) path.kernels[trace_.gpu.name[op.row]] += ns;
      path.gpu_rows.push_back(op.row);
      spend(op.of, ns);
      at_ns -= ns;
      Bound by;
      const int64_t ready_ns = Ready(op, &by);
      const uint32_t of = by == Bound::kCall ? op.call : by == Bound::kBefore ? op.before : op.other;
      go(by == Bound::kNothing ? At::kNothing
         : by == Bound::kCall  ? At::kCallBegin
                               : At::kOpEnd,
         of, ready_ns, op.lag_of);
      continue;
    }
    const Call& call = calls_[index];
    if (at == At::kCallEnd) {
      const int64_t begin_ns = call_times_[index].begin_ns;
      const int64_t ended_ns = call.awaited == kNone ? begin_ns : op_times_[call.awaited].end_ns - call.early_ns;
      if (ended_ns > begin_ns) {
        go(At::kOpEnd, call.awaited, ended_ns, PathClass::kReturn);
      } else {
        go(At::kCallBegin, index, begin_ns, call.awaited == kNone ? PathClass::kApi : PathClass::kReturn);
      }
    } else if (call.anchor == kNone) {
      at = At::kNothing;  // the time before it is the thread's own
    } else if (call.begin_ns >= calls_[call.anchor].end_ns) {
      go(At::kCallEnd, call.anchor, call_times_[call.anchor].end_ns, PathClass::kHost);
    } else {
      go(At::kCallBegin, call.anchor, call_times_[call.anchor].begin_ns, PathClass::kApi);
    }
  }
  spend_between(PathClass::kHost, trace_.window_begin_ns, at_ns);
  return path;
}

}  // namespace pitot::facts
