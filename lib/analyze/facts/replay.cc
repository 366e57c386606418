// SPDX-License-Identifier: Apache-2.0
#include "analyze/facts/replay.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "analyze/facts/host_work.h"
#include "analyze/facts/open_requests.h"

namespace pitot::facts {

using model::kNone;
using model::Trace;

namespace {

constexpr int64_t kHandoverNs = 20000;  // since the end of the awaited work on another stream

int64_t Scaled(int64_t ns, double by) {
  return by == 1 ? ns : static_cast<int64_t>(std::llround(static_cast<double>(ns) * by));
}
// Scales all but `quiet_ns`, which stay as they are.
int64_t Scaled(int64_t ns, int64_t quiet_ns, double by) { return quiet_ns + Scaled(ns - quiet_ns, by); }

}  // namespace

const char* PathClassName(PathClass of) {
  constexpr const char* kNames[kPathClasses] = {"compute", "communication", "copies", "launch",     "dispatch",
                                                "return",  "api",           "host",   "no_request", "end"};
  return kNames[static_cast<uint32_t>(of)];
}

Replay::Replay(const Trace& trace, const model::Indexes& indexes) : trace_(trace), op_of_row_(trace.gpu.size(), kNone) {
  if (HasRequests(trace))
    quiet_ = Difference(model::Union({{trace.window_begin_ns, trace.window_end_ns}}), OpenRequests(trace));
  for (int64_t before_ns = 0; const model::Interval& quiet : quiet_) {
    quiet_ns_.push_back(before_ns);
    before_ns += quiet.end_ns - quiet.begin_ns;
  }
  AddOps();
  AddCalls(indexes);
  for (uint32_t op = 0; op < ops_.size(); ++op) steps_.push_back({ops_[op].begin_ns, Step::kOp, op});
  for (uint32_t call = 0; call < calls_.size(); ++call) {
    steps_.push_back({calls_[call].begin_ns, Step::kCallBegin, call});
    if (calls_[call].awaited != kNone) steps_.push_back({calls_[call].end_ns, Step::kCallEnd, call});
  }
  std::sort(steps_.begin(), steps_.end(), [](const Step& a, const Step& b) {
    return std::tie(a.at_ns, a.kind, a.index) < std::tie(b.at_ns, b.kind, b.index);
  });
  call_times_.resize(calls_.size());
  op_times_.resize(ops_.size());
}

void Replay::AddOps() {
  std::vector<int8_t> communicates(trace_.strings.size(), -1);
  for (uint32_t row = 0; row < trace_.gpu.size(); ++row) {
    const model::GpuKind kind = trace_.gpu.kind[row];
    if (kind == model::GpuKind::kSpan) continue;
    Op op;
    op.row = row;
    op.begin_ns = std::clamp(trace_.gpu.begin_ns[row], trace_.window_begin_ns, trace_.window_end_ns);
    op.end_ns = std::clamp(trace_.gpu.begin_ns[row] + trace_.gpu.duration_ns[row], op.begin_ns, trace_.window_end_ns);
    op.of = PathClass::kCopies;
    if (kind == model::GpuKind::kKernel || kind == model::GpuKind::kGraph) {
      int8_t& known = communicates[trace_.gpu.name[row]];
      if (known < 0) known = model::IsCommunicationKernel(trace_.strings[trace_.gpu.name[row]]);
      op.of = known != 0 ? PathClass::kCommunication : PathClass::kCompute;
    }
    ops_.push_back(op);
  }
  std::sort(ops_.begin(), ops_.end(),
            [](const Op& a, const Op& b) { return std::tie(a.begin_ns, a.row) < std::tie(b.begin_ns, b.row); });
  std::vector<uint32_t> last_of_stream(trace_.streams.size(), kNone), last_of_device(trace_.devices.size() + 1, kNone);
  for (uint32_t i = 0; i < ops_.size(); ++i) {
    Op& op = ops_[i];
    op_of_row_[op.row] = i;
    const uint32_t stream = trace_.gpu.stream[op.row];
    const size_t device = std::min<size_t>(trace_.streams[stream].device, trace_.devices.size());
    int64_t ready_ns = trace_.window_begin_ns;
    // An operation that seems to begin before its launch, by clocks, does not have to wait for it.
    const uint32_t call = trace_.gpu.call[op.row];
    if (call != kNone && trace_.calls.begin_ns[call] <= op.begin_ns) {
      op.call = call;
      if (trace_.calls.begin_ns[call] >= ready_ns) op.lag_of = PathClass::kLaunch;
      ready_ns = std::max(ready_ns, trace_.calls.begin_ns[call]);
    }
    if (const uint32_t before = last_of_stream[stream]; before != kNone && ops_[before].end_ns <= op.begin_ns) {
      op.before = before;
      if (ops_[before].end_ns >= ready_ns) op.lag_of = PathClass::kDispatch;
      ready_ns = std::max(ready_ns, ops_[before].end_ns);
    }
    // The device's latest end so far; counts if it is on another stream, and nearer than all else.
    const uint32_t other = last_of_device[device];
    if (other != kNone && other != op.before && ops_[other].end_ns <= op.begin_ns && ops_[other].end_ns > ready_ns &&
        op.begin_ns - ops_[other].end_ns <= kHandoverNs) {
      op.other = other;
      op.lag_of = PathClass::kDispatch;
      ready_ns = ops_[other].end_ns;
    }
    op.lag_ns = op.begin_ns - ready_ns;
    op.quiet_ns = QuietNs(ready_ns, op.begin_ns);
    last_of_stream[stream] = i;
    if (other == kNone || ops_[other].end_ns <= op.end_ns) last_of_device[device] = i;
  }
}

void Replay::AddCalls(const model::Indexes& indexes) {
  uint32_t anchor = kNone, launched = kNone;  // of the thread: its last call; the op that ends last
  for (uint32_t row = 0; row < trace_.calls.size(); ++row) {
    Call call;
    call.begin_ns = std::clamp(trace_.calls.begin_ns[row], trace_.window_begin_ns, trace_.window_end_ns);
    call.end_ns = std::clamp(trace_.CallEnd(row), call.begin_ns, trace_.window_end_ns);
    if (row > 0 && trace_.calls.thread[row] != trace_.calls.thread[row - 1]) anchor = launched = kNone;
    // Calls of unknown threads have no order.
    call.anchor = trace_.calls.thread[row] == kNone ? kNone : anchor;
    if (call.end_ns > call.begin_ns && indexes.waiting.Has(row)) FindAwaited(indexes.waits, row, launched, &call);
    for (const uint32_t gpu_row : indexes.launches.Gpu(row)) {
      const uint32_t op = op_of_row_[gpu_row];
      if (op != kNone && (launched == kNone || ops_[op].end_ns >= ops_[launched].end_ns)) launched = op;
    }
    const int64_t before_ns = call.anchor == kNone ? trace_.window_begin_ns : calls_[call.anchor].end_ns;
    call.quiet_before_ns = QuietNs(before_ns, call.begin_ns);
    call.quiet_ns = QuietNs(call.awaited == kNone ? call.begin_ns : AwaitedUntil(call), call.end_ns);
    if (anchor == kNone || call.end_ns >= calls_[anchor].end_ns) anchor = row;
    calls_.push_back(call);
  }
}

int64_t Replay::AwaitedUntil(const Call& call) const {
  return std::max(ops_[call.awaited].end_ns - call.early_ns, call.begin_ns);
}

int64_t Replay::QuietNs(int64_t begin_ns, int64_t end_ns) const {
  if (quiet_.empty() || begin_ns >= end_ns) return 0;
  const auto before = [&](int64_t ns) {
    const auto next = std::partition_point(quiet_.begin(), quiet_.end(),
                                           [&](const model::Interval& quiet) { return quiet.begin_ns < ns; });
    if (next == quiet_.begin()) return int64_t{0};
    const auto last = static_cast<size_t>(next - quiet_.begin()) - 1;
    return quiet_ns_[last] + std::min(ns, quiet_[last].end_ns) - quiet_[last].begin_ns;
  };
  return before(end_ns) - before(begin_ns);
}

// Finds the work a call waits for; if it waits for the device, the last of every stream. If nothing ended meanwhile,
// the work launched by the thread that ended last: an earlier call would have waited for it.
void Replay::FindAwaited(const model::GpuWaits& waits, uint32_t row, uint32_t launched, Call* call) {
  call->first_other = static_cast<uint32_t>(others_.size());
  for (const uint32_t gpu_row : waits.LastOfStreams(row, call->end_ns)) {
    const uint32_t op = op_of_row_[gpu_row];
    if (op == kNone) continue;
    if (call->awaited != kNone) {
      others_.push_back(op);
      continue;
    }
    call->awaited = op;
    call->early_ns = std::max<int64_t>(0, ops_[op].end_ns - call->end_ns);
  }
  call->last_other = static_cast<uint32_t>(others_.size());
  if (call->awaited == kNone && launched != kNone && ops_[launched].end_ns <= call->begin_ns) call->awaited = launched;
}

// When everything an op waits for is there, and which of it was last.
int64_t Replay::Ready(const Op& op, Bound* bound_by) const {
  int64_t ready_ns = trace_.window_begin_ns;
  *bound_by = Bound::kNothing;
  const auto wait_for = [&](Bound what, int64_t ns) {
    if (ns >= ready_ns) ready_ns = ns, *bound_by = what;
  };
  if (op.call != kNone) wait_for(Bound::kCall, call_times_[op.call].begin_ns);
  if (op.before != kNone) wait_for(Bound::kBefore, op_times_[op.before].end_ns);
  if (op.other != kNone) wait_for(Bound::kOther, op_times_[op.other].end_ns);
  return ready_ns;
}

int64_t Replay::Play(const Pace& pace) {
  const auto of = [&](PathClass k) { return pace.of[static_cast<size_t>(k)]; };
  int64_t end_ns = trace_.window_begin_ns, recorded_end_ns = trace_.window_begin_ns;
  for (const Step& step : steps_) {
    if (step.kind == Step::kOp) {
      const Op& op = ops_[step.index];
      Bound bound_by;
      Times& times = op_times_[step.index];
      times.begin_ns = Ready(op, &bound_by) + Scaled(op.lag_ns, op.quiet_ns, of(op.lag_of));
      const bool is_kernel = pace.kernel != 0 && trace_.gpu.name[op.row] == pace.kernel;
      const double by = pace.of_rows != nullptr ? (*pace.of_rows)[op.row] : is_kernel ? pace.of_kernel : of(op.of);
      times.end_ns = times.begin_ns + Scaled(op.end_ns - op.begin_ns, by);
      end_ns = std::max(end_ns, times.end_ns);
      recorded_end_ns = std::max(recorded_end_ns, op.end_ns);
      continue;
    }
    const Call& call = calls_[step.index];
    Times& times = call_times_[step.index];
    if (step.kind == Step::kCallBegin) {
      if (call.anchor == kNone) {
        times.begin_ns = trace_.window_begin_ns +
                         Scaled(call.begin_ns - trace_.window_begin_ns, call.quiet_before_ns, of(PathClass::kHost));
      } else if (const Call& before = calls_[call.anchor]; call.begin_ns >= before.end_ns) {
        times.begin_ns = call_times_[call.anchor].end_ns +
                         Scaled(call.begin_ns - before.end_ns, call.quiet_before_ns, of(PathClass::kHost));
      } else {
        times.begin_ns = call_times_[call.anchor].begin_ns + call.begin_ns - before.begin_ns;
      }
      times.end_ns = times.begin_ns;
      if (call.awaited == kNone)
        times.end_ns += Scaled(call.end_ns - call.begin_ns, call.quiet_ns, of(PathClass::kApi));
    } else if (pace.without_waits) {
      times.end_ns = times.begin_ns + call.quiet_ns;
    } else {
      times.end_ns = std::max(times.begin_ns, op_times_[call.awaited].end_ns - call.early_ns);
      for (uint32_t i = call.first_other; i < call.last_other; ++i)
        times.end_ns = std::max(times.end_ns, op_times_[others_[i]].end_ns - call.early_ns);
      times.end_ns += Scaled(call.end_ns - AwaitedUntil(call), call.quiet_ns, of(PathClass::kReturn));
    }
    end_ns = std::max(end_ns, times.end_ns);
    recorded_end_ns = std::max(recorded_end_ns, call.end_ns);
  }
  return end_ns - trace_.window_begin_ns + trace_.window_end_ns - recorded_end_ns;
}

}  // namespace pitot::facts
