// SPDX-License-Identifier: Apache-2.0
//
// Calls of the GPU's API (waiting ones, and launches that wait for room), and the way over GPUs.
#include <algorithm>
#include <string_view>
#include <utility>

#include "analyze/blame/walk.h"
#include "analyze/facts/clock_state.h"
#include "analyze/facts/copies.h"
#include "analyze/facts/host_work.h"
#include "analyze/facts/subjects.h"
#include "base/call_class.h"

namespace pitot::blame {

using model::GpuKind;
using model::kNone;

namespace {

using facts::DirectionOf;
using facts::kClockDrop;

bool Says(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

// Whether a launch took far longer than launches do. Where they are counted, only such a one has a record.
bool IsSlowLaunch(const Index& index, uint32_t call) {
  if (index.gpu.IsLaunchCounted(call)) return true;
  return static_cast<double>(index.trace.CallEnd(call) - index.trace.calls.begin_ns[call]) >
         index.options.slow_launch_factor * static_cast<double>(index.gpu.MedianLaunchNs());
}

// Whether a call asked for a kernel, or about one, and took long. Either it loaded the code, or it waited.
bool AsksForKernel(const model::Trace& trace, uint32_t call) {
  return trace.strings[trace.calls.name[call]].ends_with(base::kLoadingSuffix);
}

// Whether a slow launch of a batch with counted ones waited for room in its queue.
bool IsOfFullQueue(const Index& index, uint32_t call) {
  return index.gpu.IsLaunchCounted(call) && index.launching.OfBatch(index.trace.calls.batch[call]).is_full;
}

bool Contains(model::Interval around, model::Interval inner) {
  return inner.begin_ns >= around.begin_ns && inner.end_ns <= around.end_ns;
}

}  // namespace

// ---- Calls

void Walk::Call(const Piece& piece, int64_t begin_ns) {
  const uint32_t call = piece.call;
  const CallClass what = index_.gpu.ClassOf(call);
  const int64_t call_ns = trace_.calls.begin_ns[call];
  if (IsWaiting(what)) {
    const uint32_t op = index_.gpu.waits().Last(call, now_ns_);
    if (op != kNone && index_.gpu.IsSpan(op)) return WaitForSpans(piece, begin_ns, op);
    if (op != kNone) {
      const int64_t end_ns = std::min(index_.gpu.EndNs(op), now_ns_);
      BlameSegment rest;
      rest.thread = thread_;
      rest.call = call;
      rest.event = piece.event;
      rest.gpu = op;
      rest.batch = BatchAt(begin_ns);
      rest.blame = what == CallClass::kFree                            ? Blame::kAllocStall
                   : what == CallClass::kBlockingCopy                  ? BlameOfCopying(call)
                   : now_ns_ - end_ns <= index_.options.sync_return_ns ? Blame::kSyncReturn
                   : index_.gpu.MayHaveLost({end_ns, now_ns_})         ? Blame::kUntraced
                                                                       : Blame::kHostBlockedUnknown;
      if (end_ns > begin_ns) {
        const bool is_late = now_ns_ - end_ns >= index_.options.wake_up_ns;
        EmitDivided(end_ns, rest, is_late ? OfWakeUp(thread_, end_ns) : OffCpu());
        BeginDetour(call_ns);
        return MoveToGpu(op, call_ns, thread_, call);
      }
      return Emit(begin_ns, rest);
    }
  }
  if (Enqueues(what) && index_.gpu.MedianLaunchNs() > 0) {
    const auto caused = index_.gpu.launches().Gpu(call);
    const int64_t took_ns = now_ns_ - call_ns;
    const bool is_slow = static_cast<double>(took_ns) >
                         index_.options.slow_launch_factor * static_cast<double>(index_.gpu.MedianLaunchNs());
    if (is_slow && caused.size() != 0 && index_.gpu.Ahead(*caused.begin()) >= index_.options.full_queue_depth) {
      const uint32_t op = index_.gpu.MadeRoom(call, now_ns_);
      if (op != kNone && trace_.gpu.begin_ns[op] > begin_ns) {
        BlameSegment full;
        full.blame = Blame::kLaunchQueueFull;
        full.thread = thread_;
        full.call = call;
        full.batch = BatchAt(begin_ns);
        Emit(trace_.gpu.begin_ns[op], full);
        return MoveToGpu(op, call_ns, thread_, call);
      }
    }
  }
  // Pitot's record of an event waits for the driver as launches do.
  const bool is_mark = what == CallClass::kMark && index_.gpu.AreOperationsRecorded(call_ns, now_ns_);
  if ((Enqueues(what) || is_mark || AsksForKernel(trace_, call)) && LaunchBehindDriver(call, begin_ns)) return;
  EmitCall(begin_ns, call, piece.event);
}

Blame Walk::BlameOfCopy(uint32_t op) const {
  const std::string_view direction = DirectionOf(trace_, op);
  return direction == "HtoD" ? Blame::kH2d : direction == "DtoH" ? Blame::kD2h : Blame::kD2dMemset;
}

// A call that copies is the copy's time, not a launch's. If the copy was not recorded, the call's name may have its
// direction.
Blame Walk::BlameOfCopying(uint32_t call) const {
  const auto caused = index_.gpu.launches().Gpu(call);
  if (caused.size() != 0) return BlameOfCopy(*caused.begin());
  const std::string_view name = trace_.strings[trace_.calls.name[call]];
  return Says(name, "HtoD") ? Blame::kH2d : Says(name, "DtoH") ? Blame::kD2h : Blame::kLaunchApi;
}

// A wait for spans. They tell when the batch's work ended, and include gaps: what the thread did before this wait was
// not the GPU's time, so the walk goes on there, and not at the beginning of the work.
void Walk::WaitForSpans(const Piece& piece, int64_t begin_ns, uint32_t op) {
  BlameSegment rest;
  rest.thread = thread_;
  rest.call = piece.call;
  rest.event = piece.event;
  rest.batch = BatchOfSpan(op, begin_ns);
  const CallClass what = index_.gpu.ClassOf(piece.call);
  rest.blame = what == CallClass::kFree                                          ? Blame::kAllocStall
               : what == CallClass::kBlockingCopy                                ? BlameOfCopying(piece.call)
               : now_ns_ - index_.gpu.EndNs(op) <= index_.options.sync_return_ns ? Blame::kSyncReturn
                                                                                 : Blame::kHostBlockedUnknown;
  const uint32_t last = op;
  const int64_t ended_ns = std::max(index_.gpu.EndNs(op), begin_ns);
  if (rest.blame != Blame::kSyncReturn) EmitQueue(ended_ns, op, rest);
  EmitWaitInCall(ended_ns, rest);
  rest.blame = Blame::kHostBlockedUnknown;
  for (; op != kNone && index_.gpu.EndNs(op) > begin_ns; op = index_.gpu.Previous(op)) {
    patience_.Count();
    if (IsOthers(op)) continue;
    EmitQueue(std::max(index_.gpu.EndNs(op), begin_ns), op, rest);
    EmitWaitInCall(std::max(index_.gpu.EndNs(op), begin_ns), rest);
    ExecuteSpan(piece, begin_ns, op);
  }
  EmitQueue(begin_ns, last, rest);
  EmitWaitInCall(begin_ns, rest);
}

uint32_t Walk::BatchOfSpan(uint32_t span, int64_t at_ns) const {
  const uint32_t call = trace_.gpu.call[span];
  return OwnBatchOr(call != kNone ? trace_.calls.batch[call] : kNone, at_ns);
}

// The time in which others' spans were on the stream of `span`: a stream works in the order of launches.
void Walk::EmitQueue(int64_t begin_ns, uint32_t span, BlameSegment waits) {
  const model::Interval when = {std::max(begin_ns, blame_->begin_ns), now_ns_};
  if (when.end_ns <= when.begin_ns) return;
  const GpuOps::Overlap ahead = index_.gpu.OnStream(trace_.gpu.stream[span], when, [&](uint32_t op) {
    patience_.Count();
    return IsOthers(op);
  });
  if (ahead.ns == 0) return;
  waits.blame = Blame::kGpuQueueWaitOthers;
  if (!IsOthers(span)) waits.gpu = span;
  waits.by = OwnerOf(ahead.longest);
  Emit(now_ns_ - ahead.ns, waits);
}

// Work on other streams of a span's device within `when`: spans with `is_other(op)`, or what threads waited for on
// nobody's behalf. A wait for the span's own stream, or one that ended with the span, was for the span.
template <class IsOther>
Walk::Contention Walk::WorkBeside(uint32_t span, model::Interval when, const IsOther& is_other) {
  const GpuOps::Overlap spans = index_.gpu.Beside(span, when, is_other);
  const LoneWaits::Overlap waits = index_.lone_waits.Within(when, [&](uint32_t call) {
    patience_.Count();
    const int64_t after_ns = trace_.CallEnd(call) - index_.gpu.EndNs(span);
    const uint32_t stream = trace_.calls.stream[call], own = trace_.gpu.stream[span];
    const bool may_be_other =
        stream == kNone || (stream != own && trace_.streams[stream].device == trace_.streams[own].device);
    return may_be_other && (after_ns < 0 || after_ns > index_.options.sync_return_ns) &&
           !std::binary_search(own_threads_.begin(), own_threads_.end(), trace_.calls.thread[call]);
  });
  Contention beside{std::max(spans.ns, waits.ns), {}};
  if (waits.ns > spans.ns) {
    beside.by.thread = trace_.calls.thread[waits.call];
  } else if (spans.longest != kNone && IsOthers(spans.longest)) {
    beside.by = OwnerOf(spans.longest);
  }
  return beside;
}

// What a span took beyond the usual, without what was blamed on others' work beside or before it, and spans within it.
int64_t Walk::BeyondUsualNs(uint32_t span) const {
  const int64_t usual_ns = index_.gpu.UsualNs(span);
  int64_t ns = usual_ns >= 0 ? trace_.gpu.duration_ns[span] - usual_ns : 0;
  const model::Interval all = index_.gpu.TimeOf(span);
  for (const auto& [other, others_ns] : by_others_ns_) {
    if (Contains(all, index_.gpu.TimeOf(other))) ns -= others_ns;
  }
  return std::max<int64_t>(ns, 0);
}

// The end of a time in which the GPU worked for `most_ns` by its counters is others', while they had work on the GPU.
// All such time of a batch is no longer than what its span took beyond the usual.
void Walk::EmitContended(int64_t begin_ns, int64_t most_ns, BlameSegment working) {
  const uint32_t span = working.batch != kNone ? index_.gpu.LongestSpanOf(working.batch) : kNone;
  if (span == kNone) return;
  const int64_t excess_ns = BeyondUsualNs(span);
  const model::Interval when = {std::max({begin_ns, blame_->begin_ns, trace_.gpu.begin_ns[span]}),
                                std::min(now_ns_, index_.gpu.EndNs(span))};
  if (excess_ns <= 0 || when.end_ns <= when.begin_ns) return;
  const Contention beside = WorkBeside(span, when, [&](uint32_t op) { return IsOthers(op); });
  const int64_t ns = std::min({excess_ns, beside.ns, most_ns});
  by_others_ns_[span] += ns;
  working.blame = Blame::kGpuContention;
  working.gpu = span;
  working.by = beside.by;
  EmitOne(now_ns_ - ns, working);
}

// The time of a span within a call that waits for it. As far as the span is longer than usual, others' work on its
// stream went before its own, and work on other streams is contention.
void Walk::ExecuteSpan(const Piece& piece, int64_t begin_ns, uint32_t op) {
  const int64_t since_ns = std::max(trace_.gpu.begin_ns[op], begin_ns);
  if (now_ns_ <= since_ns) return;
  BlameSegment segment;
  segment.gpu = op;
  segment.call = piece.call;
  segment.event = piece.event;
  segment.thread = thread_;
  segment.batch = BatchOfSpan(op, begin_ns);
  segment.blame = Blame::kGpuExecExpected;
  const uint32_t longest = segment.batch != kNone ? index_.gpu.LongestSpanOf(segment.batch) : kNone;
  const bool is_within = longest != kNone && index_.gpu.UsualNs(longest) >= 0 &&
                         Contains(index_.gpu.TimeOf(longest), index_.gpu.TimeOf(op));
  const int64_t excess_ns = std::min(BeyondUsualNs(op), is_within ? BeyondUsualNs(longest) : INT64_MAX);
  const model::Interval when = {since_ns, now_ns_};
  const GpuOps::Overlap ahead =
      index_.gpu.OnStream(trace_.gpu.stream[op], when, [&](uint32_t other) { return IsOthers(other); });
  const int64_t ahead_ns = std::min(excess_ns, ahead.ns);
  const Contention beside = WorkBeside(op, when, [](uint32_t) { return true; });
  BlameSegment contended = segment;
  contended.blame = Blame::kGpuContention;
  contended.by = beside.by;
  const int64_t contended_ns = std::min({excess_ns - ahead_ns, beside.ns, now_ns_ - since_ns});
  by_others_ns_[op] += contended_ns + ahead_ns;
  Emit(now_ns_ - contended_ns, contended);
  BlameSegment waits = segment;
  waits.blame = Blame::kGpuQueueWaitOthers;
  if (ahead.longest != kNone) waits.by = OwnerOf(ahead.longest);
  Emit(std::max(since_ns, now_ns_ - ahead_ns), waits);
  Emit(since_ns, segment);
}

// The time of a wait in which no span ran: the GPU's as far as its counters say that it worked, or if nothing says
// what it did.
void Walk::EmitWaitInCall(int64_t begin_ns, BlameSegment rest) {
  if (now_ns_ <= begin_ns) return;
  OffCpu off;
  if (rest.blame == Blame::kHostBlockedUnknown || rest.blame == Blame::kD2h || rest.blame == Blame::kAllocStall ||
      rest.blame == Blame::kGpuExecExpected)
    DivideByGpuUse(begin_ns, rest.batch, &off);
  EmitDivided(begin_ns, rest, off);
}

// Whether the trace says what the GPU did from `begin_ns` until now.
bool Walk::IsGpuKnown(int64_t begin_ns) const {
  if (index_.gpu.AreOperationsRecorded(begin_ns, now_ns_)) return true;
  const GpuUse::Device* const device = index_.gpu_use.Of(BatchAt(begin_ns), thread_);
  return device != nullptr && device->IsSampled(begin_ns, now_ns_);
}

// What the thread's own time in a call is, from `begin_ns` to now.
Blame Walk::BlameOfCall(int64_t begin_ns, uint32_t call) const {
  switch (index_.gpu.ClassOf(call)) {
    case CallClass::kLaunch:
    case CallClass::kCopy:
    case CallClass::kEnqueue:
      return Blame::kLaunchApi;
    case CallClass::kMark:  // Pitot's record of an event: a long one waits for room or for the driver, as launches do
      return trace_.calls.duration_ns[call] >= index_.options.first_use_ns ? Blame::kLaunchApi
                                                                           : Blame::kHostOncpuFramework;
    case CallClass::kBlockingCopy: {
      const Blame copy = BlameOfCopying(call);
      // It waits for all work before it, and the copy itself is short as a rule.
      return copy == Blame::kD2h && !IsGpuKnown(begin_ns) ? Blame::kGpuExecExpected : copy;
    }
    case CallClass::kAlloc:
    case CallClass::kAllocAsync:
    case CallClass::kFree:
      return Blame::kAllocStall;
    case CallClass::kSync:
    case CallClass::kDeviceSync:
      // So long a wait must have been for something unrecorded: for the GPU, where no work of GPUs was recorded at all.
      return now_ns_ - begin_ns <= index_.options.sync_return_ns ? Blame::kHostOncpuFramework
             : IsGpuKnown(begin_ns)                              ? Blame::kHostBlockedUnknown
                                                                 : Blame::kGpuExecExpected;
    case CallClass::kLoad:
    case CallClass::kCompile:
      return Blame::kLazyLoadJit;
    case CallClass::kGraph:
    case CallClass::kOther:
      break;
  }
  return Blame::kHostOncpuFramework;
}

// The thread's own time in a call.
void Walk::EmitCall(int64_t begin_ns, uint32_t call, uint32_t event) {
  BlameSegment segment;
  segment.thread = thread_;
  segment.call = call;
  segment.event = event;
  segment.batch = OwnBatchOr(trace_.calls.batch[call], begin_ns);
  segment.blame = BlameOfCall(begin_ns, call);
  if (IsWaiting(index_.gpu.ClassOf(call)) && !index_.gpu.AreOperationsRecorded(begin_ns, now_ns_))
    return EmitWaitInCall(begin_ns, segment);
  if (segment.blame == Blame::kLaunchApi) return EmitLaunch(begin_ns, segment);
  if (AsksForKernel(trace_, call)) {
    segment.by = InDriver(thread_, {trace_.calls.begin_ns[call], trace_.CallEnd(call)}).by;
    if (segment.by.IsKnown()) segment.blame = Blame::kLaunchApi;
  }
  EmitInCall(begin_ns, segment);
}

// The time in a launch: in a full queue, behind another thread in the driver, in a first use, or its own.
void Walk::EmitLaunch(int64_t begin_ns, BlameSegment segment) {
  const uint32_t call = segment.call;
  // The record of a span's begin may wait for another thread that waits for the same stream.
  if (const auto caused = index_.gpu.launches().Gpu(call);
      index_.gpu.ClassOf(call) == CallClass::kMark && caused.size() != 0 && index_.gpu.IsSpan(*caused.begin()))
    EmitQueue(begin_ns, *caused.begin(), segment);
  BlameSegment loads = segment;
  loads.blame = Blame::kLazyLoadJit;
  if (IsSlowLaunch(index_, call))
    segment.by = InDriver(thread_, {trace_.calls.begin_ns[call], trace_.CallEnd(call)}).by;
  if (!segment.by.IsKnown() && IsOfFullQueue(index_, call)) {
    segment.blame = Blame::kLaunchQueueFull;
    return EmitInCall(begin_ns, segment);
  }
  // A thread in the driver explains a slow launch better than a guess.
  const bool is_held = segment.by.IsKnown() && index_.first_uses.IsGuess(call);
  const int64_t load_ns = is_held ? 0 : index_.first_uses.LoadNs(call);
  const int64_t loaded_ns = std::max(begin_ns, trace_.calls.begin_ns[call] + load_ns);
  // Modules loaded and code compiled meanwhile, the last first.
  const auto& all = trace_.overheads;
  auto after = std::partition_point(all.begin(), all.end(),
                                    [&](const model::OverheadRow& row) { return row.begin_ns < now_ns_; });
  for (; after != all.begin() && now_ns_ > loaded_ns; --after) {
    const model::OverheadRow& overhead = *(after - 1);
    if (overhead.begin_ns < trace_.calls.begin_ns[call]) break;
    const std::string_view name = trace_.strings[overhead.name];
    if (!facts::IsLoading(name) && !facts::IsCompiling(name)) continue;
    EmitInCall(std::max(overhead.begin_ns + overhead.duration_ns, loaded_ns), segment);
    EmitInCall(std::max(overhead.begin_ns, loaded_ns), loads);
  }
  EmitInCall(loaded_ns, segment);
  EmitInCall(begin_ns, loads);
}

// A call that does not wait is code: its thread's counters say how much of it had no CPU. Sleep in it is the driver's,
// and stays the call's.
void Walk::EmitInCall(int64_t begin_ns, const BlameSegment& segment) {
  OffCpu off;
  if (!IsWaiting(index_.gpu.ClassOf(segment.call))) {
    const OffCpu all = index_.host.OfCode(segment.thread, std::max(begin_ns, blame_->begin_ns), now_ns_);
    off.runqueue_ns = all.runqueue_ns;
    off.runqueue_counter = all.runqueue_counter;
  }
  EmitDivided(begin_ns, segment, off);
}

// The thread that spent most of that time, and at least `least_in_driver` of it, in calls holding the driver's lock;
// and its longest such call.
Walk::Holder Walk::InDriver(uint32_t thread, model::Interval when) {
  Holder holder;
  double most_ns = index_.options.least_in_driver * static_cast<double>(when.end_ns - when.begin_ns);
  for (uint32_t other = 0; other < trace_.threads.size(); ++other) {
    if (other == thread) continue;
    int64_t held_ns = 0, longest_ns = 0;
    uint32_t longest = kNone;
    for (int64_t at_ns = when.end_ns; at_ns > when.begin_ns;) {
      patience_.Count();
      const Piece piece = index_.threads.Before(other, at_ns);
      const int64_t from_ns = std::max(piece.begin_ns, when.begin_ns);
      const CallClass what = piece.call != kNone ? index_.gpu.ClassOf(piece.call) : CallClass::kOther;
      if (base::IsAllocation(what) || what == CallClass::kBlockingCopy) {
        held_ns += at_ns - from_ns;
        if (at_ns - from_ns > longest_ns) longest = piece.call;
        longest_ns = std::max(longest_ns, at_ns - from_ns);
      }
      at_ns = from_ns;
    }
    if (longest == kNone || static_cast<double>(held_ns) < most_ns) continue;
    most_ns = static_cast<double>(held_ns);
    holder.call = longest;
    holder.by.thread = other;
    holder.by.batch = trace_.calls.batch[longest];
    holder.by.request =
        holder.by.batch == kNone ? Outermost(trace_, index_.requests, trace_.calls.request[longest]) : kNone;
  }
  return holder;
}

// Goes on at the operation another thread's call waited for, if that call kept this thread out of the driver for most
// of `when`, which ends now. The time after that operation is `rest`.
bool Walk::GoBehindDriver(model::Interval when, int64_t begin_ns, uint32_t call, BlameSegment rest) {
  if (now_ns_ <= begin_ns) return false;
  const Holder holder = InDriver(thread_, when);
  if (holder.call == kNone || !IsWaiting(index_.gpu.ClassOf(holder.call))) return false;
  // Code not known to be in the driver was there if it went on when the driver became free.
  if (call == kNone && (trace_.CallEnd(holder.call) > when.end_ns ||
                        trace_.CallEnd(holder.call) < when.end_ns - index_.options.sync_return_ns))
    return false;
  const uint32_t op = index_.gpu.waits().Last(holder.call, now_ns_);
  if (op == kNone || index_.gpu.EndNs(op) <= begin_ns) return false;
  rest.thread = thread_;
  rest.batch = BatchAt(begin_ns);
  if (call != kNone) rest.by = holder.by;
  Emit(std::min(index_.gpu.EndNs(op), now_ns_), rest);
  MoveToGpu(op, begin_ns, thread_, call);
  return true;
}

// A launch that took far longer than launches do, or a slow call for a kernel.
bool Walk::LaunchBehindDriver(uint32_t call, int64_t begin_ns) {
  const bool is_first = index_.first_uses.LoadNs(call) != 0 && !index_.first_uses.IsGuess(call);
  if (is_first || (!IsSlowLaunch(index_, call) && !AsksForKernel(trace_, call))) return false;
  BlameSegment rest;
  rest.blame = Blame::kLaunchApi;
  rest.call = call;
  return GoBehindDriver({trace_.calls.begin_ns[call], trace_.CallEnd(call)}, begin_ns, call, rest);
}

// Code between two calls: not all calls of the driver are recorded.
bool Walk::CodeBehindDriver(const Piece& piece, int64_t begin_ns, const BlameSegment& code) {
  if (piece.end_ns != now_ns_ || piece.end_ns - piece.begin_ns <= index_.options.wake_up_ns) return false;
  if (index_.threads.Before(thread_, piece.begin_ns).call == kNone || index_.threads.At(thread_, now_ns_).call == kNone)
    return false;
  return GoBehindDriver({piece.begin_ns, piece.end_ns}, begin_ns, kNone, code);
}

// ---- GPUs

bool Walk::IsOwn(uint32_t op) const {
  const uint32_t call = trace_.gpu.call[op];
  if (call == kNone) return false;
  if (const uint32_t batch = trace_.calls.batch[call]; batch != kNone)
    return std::binary_search(own_batches_.begin(), own_batches_.end(), batch);
  if (stay_ && request_ == kNone && stay_->batch == kNone && trace_.calls.thread[call] == stay_->thread) return true;
  for (uint32_t request = trace_.calls.request[call], i = 0; request != kNone && i < 64; ++i) {
    if (request == request_) return true;
    const uint64_t parent_id = trace_.requests[request].parent_id;
    request = parent_id != 0 ? index_.requests.Row(parent_id) : kNone;
  }
  return false;
}

// An operation without a known call may be its own; so may one called for nobody, on a thread the request was on.
bool Walk::IsOthers(uint32_t op) const {
  const uint32_t call = trace_.gpu.call[op];
  if (call == kNone || IsOwn(op)) return false;
  if (trace_.calls.batch[call] != kNone || trace_.calls.request[call] != kNone) return true;
  const uint32_t thread = trace_.calls.thread[call];
  return thread != kNone && !std::binary_search(own_threads_.begin(), own_threads_.end(), thread);
}

Culprit Walk::OwnerOf(uint32_t op) const {
  Culprit owner;
  owner.gpu = op;
  const uint32_t call = trace_.gpu.call[op];
  if (call == kNone) return owner;
  owner.thread = trace_.calls.thread[call];
  owner.batch = trace_.calls.batch[call];
  if (owner.batch == kNone) owner.request = Outermost(trace_, index_.requests, trace_.calls.request[call]);
  return owner;
}

// `ready_ns`: since when the GPU could do it; before that the walk goes on at `thread` (in `call`). The request's own
// operations have these from their launch.
void Walk::MoveToGpu(uint32_t op, int64_t ready_ns, uint32_t thread, uint32_t call) {
  op_ = op;
  own_op_ = kNone;
  ready_ns_ = ready_ns;
  ready_thread_ = thread;
  ready_call_ = call;
  if (!IsOwn(op)) return;
  own_op_ = op;
  const uint32_t launch = trace_.gpu.call[op];
  const int64_t begin_ns = trace_.gpu.begin_ns[op], launch_ns = trace_.calls.begin_ns[launch];
  if (launch_ns > begin_ns) {
    ++blame_->clamps;
    blame_->clamped_ns += launch_ns - begin_ns;
  }
  ready_ns_ = std::min(launch_ns, begin_ns);
  ready_thread_ = trace_.calls.thread[launch];
  ready_call_ = launch;
}

void Walk::StepOnGpu() {
  const int64_t begin_ns = trace_.gpu.begin_ns[op_];
  const bool is_own = own_op_ == op_;
  if (now_ns_ > begin_ns && is_own) return Execute(op_);
  BlameSegment waits;
  waits.blame = Blame::kGpuQueueWaitOthers;
  waits.gpu = own_op_;
  const auto waits_for = [&](uint32_t op) {
    waits.by = OwnerOf(op);
    waits.blame = IsOthers(op) ? Blame::kGpuQueueWaitOthers : Blame::kUntraced;
  };
  if (!is_own) {  // another's, and it waits behind this
    waits_for(op_);
    Emit(std::max(begin_ns, ready_ns_), waits);
    if (now_ns_ <= ready_ns_) return LeaveGpu();
  }
  // The latest of the stream's operation before, one of another stream, and the launch.
  const uint32_t previous = index_.gpu.Previous(op_);
  const auto end_of = [&](uint32_t op) { return std::min(index_.gpu.EndNs(op), now_ns_); };
  uint32_t cause = kNone;
  if (previous != kNone && end_of(previous) > ready_ns_) cause = previous;
  // Since when it could begin: a launch takes its time.
  const int64_t after_ns = cause != kNone         ? end_of(cause)
                           : ready_call_ != kNone ? std::max(ready_ns_, trace_.CallEnd(ready_call_))
                                                  : ready_ns_;
  if (is_own && now_ns_ - after_ns > index_.options.dispatch_gap_ns) {
    // Waits between streams are not recorded: an operation of its own that ended just before this one began, later than
    // it could, may have let it begin.
    const int64_t least_ns = now_ns_ - index_.options.dispatch_gap_ns - 1;
    const auto is_own_too = [&](uint32_t other) {
      patience_.Count();
      return IsOwn(other);
    };
    if (const uint32_t other = index_.gpu.EndedLast(op_, {least_ns, now_ns_}, is_own_too); other != kNone)
      cause = other;
  }
  if (cause == kNone) {
    if (!is_own) EmitLate(op_, ready_ns_, waits);
    return LeaveGpu();
  }
  const int64_t gap_ns = now_ns_ - end_of(cause);
  // Kernels of a stream follow each other; spans of several threads may overlap.
  if (index_.gpu.EndNs(cause) > now_ns_ && previous == cause && !index_.gpu.IsSpan(cause)) {
    ++blame_->clamps;
    blame_->clamped_ns += index_.gpu.EndNs(cause) - now_ns_;
  }
  if (is_own && IsOwn(cause)) {
    waits.blame = Blame::kDispatchGap;
    if (gap_ns > index_.options.dispatch_gap_ns && !BlameAllocation(end_of(cause), &waits))
      waits.blame = Blame::kUntraced;
    EmitLate(op_, end_of(cause), waits);
    return MoveToGpu(cause, INT64_MIN, kNone, kNone);
  }
  if (is_own) waits_for(cause);
  EmitLate(op_, end_of(cause), waits);
  if (IsOwn(cause)) return MoveToGpu(cause, INT64_MIN, kNone, kNone);
  op_ = cause;
}

// Emits the time before `op` as `late`. If it is longer than usual while others' work of another stream was on the
// device, `op` waited for room. A GPU begins a kernel once the blocks of those before it have a place, and a copy once
// its engine is free. The usual gap after that work is the other's, too.
void Walk::EmitLate(uint32_t op, int64_t since_ns, const BlameSegment& late) {
  const auto is_others = [&](uint32_t other) {
    patience_.Count();
    return IsOthers(other) && index_.gpu.MayHoldUp(other, op);
  };
  since_ns = std::max(since_ns, blame_->begin_ns);
  while (op != kNone && now_ns_ - since_ns > index_.options.dispatch_gap_ns) {
    const uint32_t other = index_.gpu.RanLast(op, {since_ns, now_ns_}, is_others);
    if (other == kNone) break;
    const int64_t end_ns = std::max(std::min(index_.gpu.EndNs(other), now_ns_), since_ns);
    if (now_ns_ - end_ns > index_.options.dispatch_gap_ns) Emit(end_ns, late);
    BlameSegment waits = late;
    waits.blame = Blame::kGpuQueueWaitOthers;
    waits.gpu = own_op_;
    waits.by = OwnerOf(other);
    Emit(std::max(trace_.gpu.begin_ns[other], since_ns), waits);
  }
  Emit(since_ns, late);
}

// Blames an allocation if an operation of its own began late with nothing recorded before it. A device stands still
// while memory is mapped or unmapped on it, and for a while after the call has returned.
bool Walk::BlameAllocation(int64_t since_ns, BlameSegment* late) const {
  const uint32_t call = late->gpu != kNone ? index_.gpu.AllocationBefore(late->gpu, since_ns) : kNone;
  if (call == kNone) return false;
  const uint32_t thread = trace_.calls.thread[call], launch = trace_.gpu.call[late->gpu];
  if (launch == kNone || thread != trace_.calls.thread[launch]) {
    late->by.thread = thread;
    late->by.batch = trace_.calls.batch[call];
    if (late->by.batch == kNone) late->by.request = Outermost(trace_, index_.requests, trace_.calls.request[call]);
  }
  late->blame = Blame::kAllocStall;
  late->gpu = kNone;
  late->call = call;
  late->thread = thread;
  return true;
}

// Goes from the beginning of its GPU work back to the calling thread.
void Walk::LeaveGpu() {
  const uint32_t thread = ready_thread_, call = ready_call_;
  BlameSegment launch;
  launch.gpu = own_op_;
  launch.call = call;
  launch.thread = thread;
  op_ = kNone;
  if (call == kNone && thread != kNone) return MoveToThread(thread, now_ns_);  // it waited for it outside of calls
  if (call == kNone) return Emit(blame_->begin_ns, launch);  // carried in: its launch and launcher are unknown
  const int64_t duration_ns = trace_.calls.duration_ns[call];
  const int64_t returned_ns = duration_ns == model::kOpen ? now_ns_ : trace_.calls.begin_ns[call] + duration_ns;
  const model::Interval latency = {std::max(returned_ns, ready_ns_), now_ns_};
  // Such a long time may belong to earlier work that is not in the trace.
  const bool is_usual = latency.end_ns - latency.begin_ns <= index_.options.dispatch_gap_ns;
  const bool is_known = is_usual || !index_.gpu.MayHaveLost({trace_.calls.begin_ns[call], now_ns_});
  launch.blame = is_known ? Blame::kLaunchLatency : Blame::kUntraced;
  if (!is_usual) BlameAllocation(latency.begin_ns, &launch);
  EmitLate(own_op_, latency.begin_ns, launch);
  thread_ = thread;
  if (Enqueues(index_.gpu.ClassOf(call)) && LaunchBehindDriver(call, ready_ns_)) return;
  EmitCall(ready_ns_, call, kNone);
  if (thread != kNone) return MoveToThread(thread, now_ns_);
  // The thread recorded nothing itself: go on where the request was seen last.
  const Sign sign = LastSeenElsewhere(now_ns_);
  MoveToThread(sign.thread != kNone ? sign.thread : row_.begin_thread, now_ns_);
}

// Divides the time beyond the usual: first by overlap with others' work, then by the lower clock, as if the kernel did
// nothing but compute. The rest is unknown.
void Walk::Execute(uint32_t op) {
  BlameSegment segment;
  segment.gpu = op;
  segment.call = trace_.gpu.call[op];
  segment.thread = ready_thread_;
  segment.batch = trace_.calls.batch[segment.call];
  const int64_t begin_ns = trace_.gpu.begin_ns[op], duration_ns = trace_.gpu.duration_ns[op];
  segment.blame = Blame::kGpuExecExpected;
  if (trace_.gpu.kind[op] == GpuKind::kMemcpy) {
    segment.blame = BlameOfCopy(op);
  } else if (trace_.gpu.kind[op] == GpuKind::kMemset) {
    segment.blame = Blame::kD2dMemset;
  } else if (index_.gpu.IsCommunication(op)) {
    segment.blame = Blame::kCommExposed;
  } else if (const int64_t usual_ns = index_.gpu.UsualNs(op); usual_ns >= 0 && duration_ns > usual_ns) {
    const GpuOps::Overlap overlap =
        index_.gpu.Beside(op, index_.gpu.TimeOf(op), [&](uint32_t other) { return IsOthers(other) || IsOwn(other); });
    const int64_t excess_ns = duration_ns - usual_ns;
    const double share = static_cast<double>(overlap.ns) / static_cast<double>(duration_ns);
    const auto contended_ns = std::min(excess_ns, static_cast<int64_t>(static_cast<double>(excess_ns) * share));
    const GpuOps::Clock clock = index_.gpu.ClockOf(op);
    const bool is_low = clock.now > 0 && clock.now <= (1 - kClockDrop) * clock.usual;
    const double slower = is_low ? clock.usual / clock.now - 1 : 0;
    const auto by_clock_ns = static_cast<int64_t>(std::min(static_cast<double>(usual_ns) * slower, 9e18));
    const int64_t known_ns = contended_ns + std::min(excess_ns - contended_ns, by_clock_ns);
    BlameSegment excess = segment;
    excess.blame = Blame::kGpuExcessUnknown;
    Emit(begin_ns + usual_ns + known_ns, excess);
    excess.blame = Blame::kGpuClock;
    excess.counter = clock.counter;
    Emit(begin_ns + usual_ns + contended_ns, excess);
    excess.counter = kNone;
    excess.blame = Blame::kGpuContention;
    if (overlap.longest != kNone && IsOthers(overlap.longest)) excess.by = OwnerOf(overlap.longest);
    Emit(begin_ns + usual_ns, excess);
  }
  Emit(begin_ns, segment);
}

}  // namespace pitot::blame
