// SPDX-License-Identifier: Apache-2.0
#include "analyze/blame/walk.h"

#include <algorithm>
#include <utility>

namespace pitot::blame {

using model::kNone;
using model::Trace;

namespace {

// A chain of causes within one moment is short, but rows that contradict each other could make it a circle.
constexpr uint32_t kMostMoves = 64;
// Batches a request can be in at the same time.
constexpr uint32_t kMostBatches = 64;
// Parts of a batch's work that are longer if the batch has more to do.
constexpr uint32_t kWorkOfBatch =
    BlameBit(Blame::kHostOncpuFramework) | BlameBit(Blame::kHostBlockedUnknown) | BlameBit(Blame::kLaunchApi) |
    BlameBit(Blame::kLaunchLatency) | BlameBit(Blame::kGpuExecExpected) | BlameBit(Blame::kGpuExcessUnknown) |
    BlameBit(Blame::kDispatchGap) | BlameBit(Blame::kH2d) | BlameBit(Blame::kD2h) | BlameBit(Blame::kD2dMemset);

// Without a request nobody handed anything over.
model::RequestIndex::Range HandoffsOf(const Index& index, uint32_t request) {
  return request != kNone ? index.requests.Handoffs(request) : model::RequestIndex::Range{nullptr, nullptr};
}

model::RequestRow RowOf(const Trace& trace, const Stay& stay) {
  model::RequestRow row;
  row.begin_ns = stay.when.begin_ns;
  row.duration_ns = stay.when.end_ns >= trace.window_end_ns ? model::kOpen : stay.when.end_ns - stay.when.begin_ns;
  row.begin_thread = row.end_thread = stay.thread;
  return row;
}

bool IsCode(const BlameSegment& segment) {
  const bool is_on_cpu = segment.blame == Blame::kHostOncpuPre || segment.blame == Blame::kHostOncpuFramework ||
                         segment.blame == Blame::kHostOncpuPost;
  const bool is_loading = segment.blame == Blame::kLazyLoadJit;
  return (is_on_cpu || is_loading) && segment.call == kNone && segment.event != kNone;
}

// Whether it is a recorded wait, and nothing tells when the awaited thing was there.
bool IsOpenWait(const model::Trace& trace, const BlameSegment& segment) {
  WaitArgs args;
  const bool is_wait = segment.blame == Blame::kHostPagefaultIo || segment.blame == Blame::kHostBlockedUnknown;
  return is_wait && segment.call == kNone && ReadWait(trace, segment.event, &args);
}

}  // namespace

const MixedWork::Part* Index::PartBehind(const BlameSegment& segment) const {
  if (segment.blame != Blame::kExecutorBusy || segment.batch == kNone || segment.by.request == kNone ||
      segment.by.batch != kNone)
    return nullptr;
  for (const MixedWork::Part& part : mixed_work.OfBatch(segment.batch).parts) {
    if (part.share > 0 && Outermost(trace, requests, part.request) == segment.by.request) return &part;
  }
  return nullptr;
}

Walk::Walk(const Index& index, uint32_t request, RequestBlame* blame)
    : index_(index),
      trace_(index.trace),
      blame_(blame),
      request_(request),
      row_(index.trace.requests[request]),
      handoffs_(index.requests.Handoffs(request)),
      patience_(index.options.is_over, index.options.is_over_context),
      signs_(index.trace, index.requests, index.memberships, request, &patience_) {}

Walk::Walk(const Index& index, const Stay& stay, RequestBlame* blame)
    : index_(index),
      trace_(index.trace),
      blame_(blame),
      stay_(stay),
      request_(stay.batch == kNone ? stay.request : kNone),
      row_of_stay_(RowOf(index.trace, stay)),
      row_(request_ != kNone ? index.trace.requests[request_] : row_of_stay_),
      handoffs_(HandoffsOf(index, request_)),
      patience_(index.options.is_over, index.options.is_over_context),
      signs_(index.trace, index.requests, index.memberships, request_, &patience_) {}

bool Walk::Run() {
  if (stay_) {
    blame_->request = request_;
    blame_->begin_ns = stay_->when.begin_ns;
    blame_->end_ns = std::max(stay_->when.end_ns, stay_->when.begin_ns);
    FindOwnOfStay();
    now_ns_ = blame_->end_ns;
    MoveToThread(stay_->thread, now_ns_);
    GoBack();
    return true;
  }
  if (!row_.begin_known || (!row_.end_known && row_.duration_ns != model::kOpen)) return false;
  blame_->request = request_;
  blame_->begin_ns = row_.begin_ns;
  blame_->end_ns = std::max(trace_.RequestEnd(row_), row_.begin_ns);
  FindOwn();
  Begin();
  GoBack();
  return true;
}

bool Walk::RunTo(uint32_t token, int64_t since_ns) {
  const model::TokenRow& to = trace_.tokens[token];
  if (to.thread == kNone) return false;
  blame_->request = request_;
  blame_->token = token;
  blame_->begin_ns = since_ns;
  blame_->end_ns = std::max(to.at_ns, since_ns);
  FindOwn();
  now_ns_ = blame_->end_ns;
  MoveToThread(to.thread, now_ns_);
  // It had begun by the time of the token before.
  if (arrival_.how == Arrival::How::kBegin && since_ns > row_.begin_ns)
    arrival_.at_ns = std::min(arrival_.at_ns, since_ns);
  GoBack();
  return true;
}

void Walk::GoBack() {
  while (now_ns_ > blame_->begin_ns) {
    patience_.Count();
    const int64_t before_ns = now_ns_;
    if (op_ != kNone) {
      StepOnGpu();
    } else {
      StepOnThread();
    }
    if (now_ns_ < before_ns) {
      moves_ = 0;
    } else if (++moves_ > kMostMoves) {
      // The walk is in a circle: leave the piece that ends here unexplained, and go on before it.
      const Piece piece = index_.threads.Before(thread_, now_ns_);
      op_ = kNone;
      Emit(piece.begin_ns, {});
    }
  }
  while (!away_.empty()) EndDetour();
  std::reverse(blame_->segments.begin(), blame_->segments.end());
}

// The thread that may have wanted the interpreter in that time, because it was in code, or at the end of a wait: the
// request's, or the one it waited for. kNone: none.
uint32_t Walk::WantsInterpreter(const BlameSegment& segment) const {
  constexpr uint32_t kBehind =
      BlameBit(Blame::kExecutorBusy) | BlameBit(Blame::kQueueWaitOthers) | BlameBit(Blame::kAdmissionQueue);
  constexpr uint32_t kWaits = BlameBit(Blame::kUntraced) | BlameBit(Blame::kHandoff) | BlameBit(Blame::kBatchWindow) |
                              BlameBit(Blame::kHostBlockedUnknown) | BlameBit(Blame::kHostPagefaultIo);
  const bool is_behind = (kBehind & BlameBit(segment.blame)) != 0;
  const uint32_t thread = is_behind ? segment.by.thread : segment.thread;
  // The notifier is known, and not what came between its call and the return.
  const bool is_notified =
      segment.blame == Blame::kHostBlockedUnknown && (segment.by.request & segment.by.batch) == kNone;
  const bool is_named = !is_behind && !is_notified && segment.by.IsKnown();
  if (thread == kNone || segment.gpu != kNone || segment.by.gpu != kNone || is_named) return kNone;
  WaitArgs args;
  const bool is_wait = (kWaits & BlameBit(segment.blame)) != 0 || ReadWait(trace_, segment.event, &args) ||
                       (segment.call != kNone && IsWaiting(index_.gpu.ClassOf(segment.call)));
  if (!is_wait) return is_behind || IsCode(segment) || segment.blame == Blame::kSyncReturn ? thread : kNone;
  const Interpreter::Held* const held = index_.interpreter.LastBefore(thread, now_ns_, blame_->begin_ns);
  return held != nullptr && index_.interpreter.WentOnAfter(*held, thread, now_ns_) ? thread : kNone;
}

// Takes out of a thread's time what another thread had the interpreter for. If the thread ran on a CPU meanwhile, it
// did not want the interpreter: it ran native code.
void Walk::Emit(int64_t begin_ns, const BlameSegment& segment) {
  begin_ns = std::max(begin_ns, blame_->begin_ns);
  const uint32_t thread = WantsInterpreter(segment);
  while (thread != kNone && now_ns_ > begin_ns) {
    const Interpreter::Held* const held = index_.interpreter.LastBefore(thread, now_ns_, begin_ns);
    if (held == nullptr) break;
    patience_.Count();
    const int64_t from_ns = std::max(held->begin_ns, begin_ns);
    if (held->end_ns < now_ns_) EmitUnheld(held->end_ns, segment);
    BlameSegment wanted = segment;
    wanted.blame = held->blame;
    wanted.by = {};
    wanted.by.thread = held->thread;
    wanted.by.event = held->event;
    const int64_t most_ns = index_.host.MostSleptNs(thread, from_ns, now_ns_);
    if (most_ns < now_ns_ - from_ns) EmitUnheld(from_ns + most_ns, segment);
    EmitOne(from_ns, wanted);
  }
  EmitUnheld(begin_ns, segment);
}

// Blames late wake-ups, and the off-CPU part of code and of untraced time, on their cause. Its place in the segment is
// unknown, so it is put at the end.
void Walk::EmitUnheld(int64_t begin_ns, const BlameSegment& segment) {
  begin_ns = std::max(begin_ns, blame_->begin_ns);
  OffCpu off;
  if (IsCode(segment)) {
    off = index_.host.OfCode(segment.thread, begin_ns, now_ns_);
    TakeGpuUse(begin_ns, segment, &off);
    // It waits for compilers in other processes, and for their files.
    if (index_.compiles.Is(segment.event)) off.blocked_ns = off.pagefault_ns = 0;
  } else if (segment.blame == Blame::kUntraced && segment.event == kNone && segment.call == kNone) {
    off = index_.host.OfUntraced(segment.thread, begin_ns, now_ns_);
  } else if (segment.blame == Blame::kBatchWindow) {
    off = OfWindow(begin_ns, segment);
  } else if (segment.blame == Blame::kHandoff && now_ns_ - begin_ns >= index_.options.wake_up_ns) {
    off = OfWakeUp(segment.thread, begin_ns);
  } else if (IsOpenWait(trace_, segment) && now_ns_ - begin_ns >= index_.options.wake_up_ns) {
    off = index_.host.OfWait(segment.thread, begin_ns, now_ns_, &woken_ns_[segment.thread]);
  }
  EmitDivided(begin_ns, segment, off);
}

// Model code of which no GPU work and no wait is recorded may be a wait for the GPU: a thread that synchronises spins
// or sleeps. As long as the GPU worked, it is not called code or a sleep without a reason.
void Walk::TakeGpuUse(int64_t begin_ns, const BlameSegment& segment, OffCpu* off) const {
  const bool is_model = segment.blame == Blame::kHostOncpuFramework && segment.batch != kNone;
  if (!is_model || index_.gpu.OpsOfBatch(segment.batch) != 0 || index_.gpu.HasWaits(segment.batch)) return;
  DivideByGpuUse(begin_ns, segment.batch, off);
}

// Takes the time in which the GPU's engines were at work from what no other proof explains.
void Walk::DivideByGpuUse(int64_t begin_ns, uint32_t batch, OffCpu* off) const {
  const GpuUse::Device* const device = index_.gpu_use.Of(batch, thread_);
  if (device == nullptr) return;
  int64_t left_ns = std::max<int64_t>(now_ns_ - begin_ns - off->runqueue_ns - off->pagefault_ns, 0);
  for (const GpuUse::Engine engine : {GpuUse::kCompute, GpuUse::kToGpu, GpuUse::kFromGpu}) {
    off->gpu_ns[engine] = std::clamp<int64_t>(device->BusyNs(engine, begin_ns, now_ns_), 0, left_ns);
    left_ns -= off->gpu_ns[engine];
    off->blocked_ns -= std::min(off->blocked_ns, off->gpu_ns[engine]);
  }
}

// The part of a wait due to a late wake-up. Each delay is blamed at most once.
OffCpu Walk::OfWakeUp(uint32_t thread, int64_t begin_ns) {
  return index_.host.OfWakeUp(thread, begin_ns, now_ns_, &woken_ns_[thread]);
}

// The late wake-up from a batch's last wait for members. An earlier one delays nothing, unless the batch waited no
// more after it: its time was up meanwhile.
OffCpu Walk::OfWindow(int64_t begin_ns, const BlameSegment& segment) {
  if (segment.batch != window_batch_) {
    window_batch_ = segment.batch;
    window_waited_ns_ = 0;
  }
  const bool is_last = window_waited_ns_ < index_.options.wake_up_ns;
  const OffCpu off = is_last ? OfWakeUp(segment.thread, begin_ns) : OffCpu();
  window_waited_ns_ += now_ns_ - begin_ns - off.runqueue_ns;
  return off;
}

void Walk::EmitDivided(int64_t begin_ns, const BlameSegment& segment, const OffCpu& off) {
  if (const BlameSegment theirs = WhoseWork(segment); theirs.blame != segment.blame)
    return EmitPart(begin_ns, theirs);  // as they did it, whatever held that up
  const auto emit = [&](int64_t ns, Blame blame, uint32_t counter) {
    if (ns <= 0) return;
    BlameSegment part = segment;
    part.blame = blame;
    part.counter = counter;
    part.by = {};
    const int64_t since_ns = std::max(now_ns_ - ns, begin_ns);
    if (blame == Blame::kGpuExecExpected) EmitContended(begin_ns, now_ns_ - since_ns, part);
    EmitPart(since_ns, part);
  };
  constexpr Blame kByEngine[GpuUse::kEngines] = {Blame::kGpuExecExpected, Blame::kH2d, Blame::kD2h};
  const GpuUse::Device* const device = index_.gpu_use.Of(segment.batch, segment.thread);
  for (const GpuUse::Engine engine : {GpuUse::kCompute, GpuUse::kToGpu, GpuUse::kFromGpu})
    emit(off.gpu_ns[engine], kByEngine[engine], device != nullptr ? device->CounterOf(engine) : kNone);
  const int64_t blocked_ns = std::clamp<int64_t>(off.blocked_ns, 0, now_ns_ - begin_ns);
  const int64_t by_lock_ns = std::min(blocked_ns, index_.interpreter.HeldByUnknownNs(begin_ns, now_ns_));
  emit(off.blocked_ns - by_lock_ns, Blame::kHostBlockedUnknown, off.blocked_counter);
  emit(by_lock_ns, Blame::kHostGil, off.blocked_counter);
  emit(off.pagefault_ns, Blame::kHostPagefaultIo, off.pagefault_counter);
  emit(off.runqueue_ns, Blame::kHostRunqueue, off.runqueue_counter);
  EmitPart(begin_ns, segment);
}

// Turns its own batch's work for another request alone, on a GPU or in its API, into a wait for that request, as for
// code.
BlameSegment Walk::WhoseWork(BlameSegment segment) const {
  const uint32_t call = segment.gpu != kNone ? trace_.gpu.call[segment.gpu] : segment.call;
  if (request_ == kNone || call == kNone || segment.by.IsKnown() ||
      !std::binary_search(own_batches_.begin(), own_batches_.end(), trace_.calls.batch[call]))
    return segment;
  const uint32_t other = OtherOf(index_.contexts.OfCall(call));
  if (other == kNone) return segment;
  segment.blame = Blame::kExecutorBusy;
  segment.by.thread = trace_.calls.thread[call];
  segment.by.request = other;
  segment.by.gpu = segment.gpu;
  segment.gpu = kNone;
  return segment;
}

void Walk::EmitPart(int64_t begin_ns, BlameSegment segment) {
  EmitMixed(begin_ns, segment);
  EmitLaunches(begin_ns, segment);
  EmitOne(begin_ns, segment);
}

// Code of a batch is made of launches to a known share, if each of them was counted and none recorded.
void Walk::EmitLaunches(int64_t begin_ns, const BlameSegment& segment) {
  if (segment.blame != Blame::kHostOncpuFramework || segment.batch == kNone || segment.call != kNone ||
      segment.thread != trace_.batches[segment.batch].thread || index_.gpu.OpsOfBatch(segment.batch) != 0)
    return;
  const Launching::Of launching = index_.launching.OfBatch(segment.batch);
  const auto length_ns = static_cast<double>(std::max<int64_t>(now_ns_ - std::max(begin_ns, blame_->begin_ns), 0));
  for (const auto& [blame, share] :
       {std::pair(Blame::kLaunchQueueFull, launching.full_queue), std::pair(Blame::kLaunchApi, launching.launching)}) {
    BlameSegment part = segment;
    part.blame = blame;
    EmitOne(now_ns_ - static_cast<int64_t>(share * length_ns), part);
  }
}

// A batch's time is longer by the work of large members. That share of it is a wait for them, except for themselves.
void Walk::EmitMixed(int64_t begin_ns, const BlameSegment& segment) {
  if ((kWorkOfBatch & BlameBit(segment.blame)) == 0 || segment.batch == kNone) return;
  const bool has_tokens = request_ == kNone || (row_.first_token_ns != 0 && row_.begin_ns + row_.first_token_ns <=
                                                                                trace_.batches[segment.batch].begin_ns);
  const uint32_t own = Outermost(trace_, index_.requests, request_);
  const int64_t length_ns = now_ns_ - std::min(std::max(begin_ns, blame_->begin_ns), now_ns_);
  for (const MixedWork::Part& mixed : index_.mixed_work.OfBatch(segment.batch).parts) {
    const uint32_t other = Outermost(trace_, index_.requests, mixed.request);
    // Inferred prompts lengthen the iterations of those that have read theirs.
    if (other == own || (mixed.work == 0 && !has_tokens)) continue;
    BlameSegment part = segment;
    part.blame = Blame::kExecutorBusy;
    part.by = {};
    part.by.thread = segment.thread;
    part.by.request = other;
    part.by.gpu = std::exchange(part.gpu, kNone);
    EmitOne(now_ns_ - static_cast<int64_t>(mixed.share * static_cast<double>(length_ns)), part);
  }
}

void Walk::EmitOne(int64_t begin_ns, BlameSegment segment) {
  const int64_t to_ns = std::min(std::max(begin_ns, blame_->begin_ns), now_ns_);
  if (to_ns == now_ns_) return;
  segment.begin_ns = to_ns;
  segment.end_ns = now_ns_;
  blame_->blame[segment.blame] += now_ns_ - to_ns;
  blame_->segments.push_back(segment);
  now_ns_ = to_ns;
}

const Membership* Walk::members_begin() const {
  return request_ != kNone ? index_.memberships.begin(request_) : batch_of_stay_.data();
}
const Membership* Walk::members_end() const {
  return request_ != kNone ? index_.memberships.end(request_) : batch_of_stay_.data() + batch_of_stay_.size();
}

void Walk::FindOwnOfStay() {
  if (request_ == kNone && stay_->batch != kNone) {
    const model::BatchRow& batch = trace_.batches[stay_->batch];
    const int64_t end_ns = std::max(trace_.BatchEnd(batch), stay_->when.end_ns);
    batch_of_stay_.push_back({kNone, stay_->batch, batch.begin_ns, end_ns, end_ns, 0});
  }
  FindOwn();
  own_threads_.insert(std::lower_bound(own_threads_.begin(), own_threads_.end(), stay_->thread), stay_->thread);
}

// Fills in its threads, batches, calls and hand-overs.
void Walk::FindOwn() {
  const auto* const end = members_end();
  for (const auto* in = members_begin(); in != end; ++in) last_model_ns_ = std::max(last_model_ns_, in->leave_ns);
  own_threads_ = {row_.begin_thread, row_.end_thread};
  for (const auto* in = members_begin(); in != end; ++in) {
    own_batches_.push_back(in->batch);
    own_threads_.push_back(trace_.batches[in->batch].thread);
  }
  for (uint32_t i = 0; i < handoffs_.size(); ++i) {
    const model::HandoffRow& handoff = trace_.handoffs[handoffs_.first[i]];
    own_threads_.push_back(handoff.to_thread);
    if (handoff.take_ns != 0) taken_on_[handoff.to_thread].push_back(i);
  }
  for (std::vector<uint32_t>* own : {&own_threads_, &own_batches_}) {
    std::sort(own->begin(), own->end());
    own->erase(std::unique(own->begin(), own->end()), own->end());
  }
  if (request_ != kNone) calls_ = index_.gpu.CallsOf(request_);
  if (calls_.begin_ns < calls_.end_ns) last_model_ns_ = std::max(last_model_ns_, calls_.end_ns);
  handoffs_left_ = handoffs_.size();
}

void Walk::Begin() {
  now_ns_ = blame_->end_ns;
  if (row_.end_known && row_.end_thread != kNone) return MoveToThread(row_.end_thread, now_ns_);
  // It has not ended, or its end has no thread: it is in its last queue, or at the place of its last sign.
  if (handoffs_.size() != 0) {
    const uint32_t last = handoffs_.first[handoffs_.size() - 1];
    const model::HandoffRow& handoff = trace_.handoffs[last];
    if (handoff.take_ns == 0) {
      BlameSegment waits;
      waits.blame = Blame::kQueueWaitOthers;  // nobody has taken it yet
      waits.handoff = last;
      Emit(handoff.enqueue_ns, waits);
      --handoffs_left_;
      return MoveToThread(handoff.from_thread, now_ns_);
    }
  }
  const Sign sign = LastSeenElsewhere(now_ns_);
  MoveToThread(sign.thread != kNone ? sign.thread : row_.begin_thread, now_ns_);
}

void Walk::MoveToThread(uint32_t thread, int64_t at_ns) {
  now_ns_ = std::min(now_ns_, at_ns);
  thread_ = thread;
  op_ = kNone;
  while (!away_.empty() && away_.back().thread == thread) EndDetour();
  arrival_ = FindArrival();
}

// The walk leaves the thread, waiting since `waits_since_ns` for the work that ended just now.
void Walk::BeginDetour(int64_t waits_since_ns) { away_.push_back({thread_, waits_since_ns, now_ns_}); }

// Any wait of the thread since then may have been for the work elsewhere, unless it names another cause.
void Walk::EndDetour() {
  const Away away = away_.back();
  away_.pop_back();
  const int64_t since_ns = std::max(away.waits_since_ns, now_ns_);
  const int64_t last_ns = std::max<int64_t>(away.end_ns - since_ns, 0);
  blame_->detours.push_back({now_ns_, away.end_ns, WaitedNs(away.thread, now_ns_, since_ns) + last_ns});
}

// How long a thread waited, as far as MayAwait says. A detour encloses those that ended before it, so their part is
// already known and not looked at again.
int64_t Walk::WaitedNs(uint32_t thread, int64_t begin_ns, int64_t end_ns) {
  Waited& known = waited_[thread];
  if (begin_ns > known.begin_ns || end_ns < known.end_ns) known = {end_ns, end_ns, 0};
  const auto add = [&](int64_t from_ns, int64_t to_ns) {
    for (int64_t at_ns = to_ns; at_ns > from_ns;) {
      patience_.Count();
      const Piece piece = index_.threads.Before(thread, at_ns);
      const int64_t piece_ns = std::max(piece.begin_ns, from_ns);
      if (MayAwait(piece)) known.ns += at_ns - piece_ns;
      at_ns = piece_ns;
    }
  };
  add(begin_ns, known.begin_ns);
  add(known.end_ns, end_ns);
  known.begin_ns = begin_ns;
  known.end_ns = end_ns;
  return known.ns;
}

// Whether a thread in that piece may be waiting for work on its request elsewhere.
bool Walk::MayAwait(const Piece& piece) const {
  if (piece.call != kNone) {
    return IsWaiting(index_.gpu.ClassOf(piece.call));
  }
  WaitArgs args;
  return ReadWait(trace_, piece.event, &args) && (args.kind == WaitKind::kFuture || args.kind == WaitKind::kCondition ||
                                                  args.kind == WaitKind::kDevice || args.kind == WaitKind::kOther);
}

// The moment and the number of remaining hand-overs only fall, so a hand-over skipped once is never needed again.
Walk::Arrival Walk::FindArrival() {
  if (stay_ && thread_ == stay_->thread) return {Arrival::How::kBegin, blame_->begin_ns, 0};
  if (const auto found = taken_on_.find(thread_); found != taken_on_.end()) {
    std::vector<uint32_t>& taken = found->second;
    const auto is_past = [&](uint32_t i) {
      return i >= handoffs_left_ || trace_.handoffs[handoffs_.first[i]].take_ns > now_ns_;
    };
    for (; !taken.empty() && is_past(taken.back()); taken.pop_back()) patience_.Count();
    if (!taken.empty())
      return {Arrival::How::kHandoff, trace_.handoffs[handoffs_.first[taken.back()]].take_ns, taken.back()};
  }
  if (thread_ == row_.begin_thread) {
    // A thread's first record for the request shows when it began with it; a task on an event loop may only await.
    const bool has_loop = index_.interpreter.HasLoop(thread_);
    return {Arrival::How::kBegin, has_loop ? row_.begin_ns : index_.threads.AcceptedNs(request_, now_ns_), 0};
  }
  // The way it came was not recorded: assume its first sign there.
  return {Arrival::How::kUnknown, std::max(std::min(now_ns_, signs_.FirstOn(thread_)), row_.begin_ns), 0};
}

// The other request for which a thread did something; kNone: it was this one, all of the batch, or nobody.
uint32_t Walk::OtherOf(uint32_t request) const {
  const uint32_t other = Outermost(trace_, index_.requests, request);
  if (request_ == kNone || other == Outermost(trace_, index_.requests, request_)) return kNone;
  return other;
}

// All work of a compiling thread is part of the compilation.
Piece Walk::PieceBefore() const {
  const Piece compile = index_.compiles.Before(thread_, now_ns_);
  return compile.event != kNone ? compile : index_.threads.Before(thread_, now_ns_);
}

void Walk::StepOnThread() {
  if (now_ns_ <= arrival_.at_ns) return Arrive();
  const Piece piece = PieceBefore();
  const int64_t begin_ns = std::max(piece.begin_ns, arrival_.at_ns);
  if (piece.call != kNone) return Call(piece, begin_ns);
  WaitArgs args;
  if (ReadWait(trace_, piece.event, &args)) return Wait(piece, begin_ns, args);
  if (const auto part = InInterpreter(thread_, piece, begin_ns)) return Emit(begin_ns, *part);
  // A thread without a record, while its batch was done elsewhere, was waiting for the batch, as far as anyone knows.
  if (piece.event == kNone && GoToWaker(piece, begin_ns, 0)) return;
  BlameSegment code;
  code.thread = thread_;
  code.event = piece.event;
  code.batch = OwnBatchOr(piece.event != kNone ? trace_.events.batch[piece.event] : kNone, begin_ns);
  if (piece.event != kNone) {
    code.blame = BlameOfCode(now_ns_);
    const uint32_t other = OtherOf(index_.contexts.OfEvent(piece.event));
    if (other != kNone) {  // it waits for this
      code.blame = trace_.events.batch[piece.event] != kNone ? Blame::kExecutorBusy : Blame::kQueueWaitOthers;
      code.by.thread = thread_;
      code.by.request = other;
    } else if (index_.compiles.Is(piece.event) ||
               (now_ns_ == piece.end_ns && index_.first_uses.IsLoading(thread_, piece))) {
      code.blame = Blame::kLazyLoadJit;
    } else if (CodeBehindDriver(piece, begin_ns, code)) {
      return;
    } else if (IsStillIn(piece)) {
      BlameSegment unseen = code;
      unseen.blame = Blame::kUntraced;
      EmitPart(std::max(begin_ns, index_.host.KnownOf(thread_).end_ns), unseen);
    }
  }
  Emit(begin_ns, code);
}

// A collection, or what an event loop did in a long step, or for another request. A request that was not ready
// meanwhile did not wait for it. Nothing: the piece is neither.
std::optional<BlameSegment> Walk::InInterpreter(uint32_t thread, const Piece& piece, int64_t at_ns) const {
  BlameSegment part;
  part.thread = thread;
  part.batch = BatchAt(at_ns);
  if (index_.interpreter.IsCollection(piece.event)) {
    part.blame = Blame::kHostGc;
    part.event = piece.event;
    part.by.thread = thread;
    part.by.event = piece.event;
    return part;
  }
  if (piece.event == kNone || piece.call != kNone || !index_.interpreter.HasLoop(thread)) return std::nullopt;
  const bool is_step = index_.interpreter.IsStep(piece.event);
  if (!is_step && (trace_.events.request[piece.event] == kNone || trace_.events.batch[piece.event] != kNone))
    return std::nullopt;
  const uint32_t step = is_step ? piece.event : index_.interpreter.StepAt(thread, at_ns);
  const uint32_t other = Outermost(trace_, index_.requests,
                                   is_step ? index_.interpreter.RequestOf(step) : trace_.events.request[piece.event]);
  // A stay that is no request's is whatever its thread did.
  if (request_ == kNone || other == Outermost(trace_, index_.requests, request_)) {
    if (!is_step) return std::nullopt;
    part.event = piece.event;
    part.blame = BlameOfCode(at_ns);
    return part;
  }
  if (step == kNone || !index_.interpreter.WasReady(request_, step)) return part;
  part.blame = Blame::kQueueWaitOthers;
  part.by.thread = thread;
  part.by.request = other;
  part.by.event = step;
  return part;
}

// Goes on before the request came to this thread.
void Walk::Arrive() {
  switch (arrival_.how) {
    case Arrival::How::kBegin:
      Tile(thread_, blame_->begin_ns, Before::kBegin, kNone);
      return;
    case Arrival::How::kHandoff: {
      const uint32_t row = handoffs_.first[arrival_.handoff];
      const model::HandoffRow& handoff = trace_.handoffs[row];
      handoffs_left_ = arrival_.handoff;
      Tile(thread_, InQueueFromNs(handoff), Before::kTake, row);
      return MoveToThread(handoff.from_thread, now_ns_);
    }
    case Arrival::How::kUnknown: {
      // Go on where it was last seen elsewhere. If this thread was waiting then, the wait was for that work: the
      // request was in an unrecorded queue.
      const Sign sign = LastSeenElsewhere(now_ns_);
      BlameSegment hop;
      hop.thread = thread_;
      if (sign.thread == kNone && stay_) {  // work on another thread, which nothing connects with the stay's
        if (stay_->thread == kNone) return Emit(blame_->begin_ns, hop);
        return MoveToThread(stay_->thread, now_ns_);
      }
      if (sign.thread == kNone) {
        const bool is_elsewhere = thread_ != row_.begin_thread && row_.begin_thread != kNone;
        if (!is_elsewhere) return Emit(blame_->begin_ns, hop);
        const int64_t accepted_ns = index_.threads.AcceptedNs(request_, now_ns_);
        Emit(accepted_ns, hop);
        return MoveToThread(row_.begin_thread, now_ns_);
      }
      const Piece there = index_.threads.Before(sign.thread, now_ns_);
      WaitArgs args;
      if (there.begin_ns >= blame_->begin_ns && sign.at_ns >= now_ns_ && ReadWait(trace_, there.event, &args)) {
        Tile(thread_, there.begin_ns, Before::kTake, kNone);
      } else {
        Emit(sign.at_ns, hop);
      }
      return MoveToThread(sign.thread, now_ns_);
    }
  }
}

// A sender may keep the lock of its queue after it put the request in. Nobody can take it before.
int64_t Walk::InQueueFromNs(const model::HandoffRow& handoff) const {
  if (handoff.from_thread == kNone || handoff.enqueue_ns >= now_ns_) return handoff.enqueue_ns;
  return index_.locks.KeptUntilNs(handoff.from_thread, handoff.queue, {handoff.enqueue_ns, now_ns_});
}

void Walk::Wait(const Piece& piece, int64_t begin_ns, const WaitArgs& args) {
  BlameSegment waits;
  waits.thread = thread_;
  waits.event = piece.event;
  waits.blame = Blame::kHostBlockedUnknown;
  waits.batch = BatchAt(begin_ns);
  switch (args.kind) {
    case WaitKind::kLock:
      return WaitForLock(piece.event, begin_ns, args);
    case WaitKind::kQueue:  // taken, and its thread waits for more members; or for an object of a pool
      if (!own_batches_.empty() || arrival_.how == Arrival::How::kHandoff) waits.blame = Blame::kBatchWindow;
      break;
    case WaitKind::kIo:
      waits.blame = Blame::kHostPagefaultIo;
      break;
    case WaitKind::kSleep:
      break;
    case WaitKind::kFuture:
    case WaitKind::kCondition:
    case WaitKind::kDevice:
    case WaitKind::kOther:
    default:
      if (args.kind == WaitKind::kCondition && IsGathering(piece.event)) {
        waits.blame = Blame::kBatchWindow;
        break;
      }
      // A future is the request's own result. A condition may be anything: only its notifier tells.
      if ((args.kind == WaitKind::kFuture || args.owner_thread != 0) && GoToWaker(piece, begin_ns, args.owner_thread))
        return;
      if (const uint32_t other = args.owner_request != 0 ? index_.requests.Row(args.owner_request) : kNone;
          other != kNone && other != request_)
        waits.by.request = Outermost(trace_, index_.requests, other);
      else if (args.kind == WaitKind::kCondition && args.owner_request == 0 && index_.locks.OwnerRow(args) != thread_)
        waits.by.thread = index_.locks.OwnerRow(args);  // its notifier, at work for nobody
      break;
  }
  const bool is_plain = args.kind == WaitKind::kIo || args.kind == WaitKind::kSleep;
  const uint32_t other = is_plain ? OtherOf(index_.contexts.OfEvent(piece.event)) : kNone;
  if (other != kNone && trace_.events.batch[piece.event] != kNone) {  // in the batch, for another member alone
    waits.blame = Blame::kExecutorBusy;
    waits.by.thread = thread_;
    waits.by.request = other;
  }
  Emit(begin_ns, waits);
}

// Blames each holder for its part, the last one first. The walk stays on this thread: the holders' own delays are their
// story.
void Walk::WaitForLock(uint32_t event, int64_t begin_ns, const WaitArgs& args) {
  BlameSegment segment;
  segment.thread = thread_;
  segment.event = event;
  segment.batch = BatchAt(begin_ns);
  segment.blame = Blame::kHandoff;
  begin_ns = std::max(begin_ns, blame_->begin_ns);
  Emit(std::max(index_.locks.GrantedNs(event, args), begin_ns), segment);
  const std::string_view name = trace_.strings[args.resource];
  const bool is_gil = name == "gil" || name == "GIL";
  segment.blame = is_gil ? Blame::kHostGil : Blame::kHostLock;
  while (now_ns_ > begin_ns) {
    patience_.Count();
    const LockGrant grant = index_.locks.HeldBefore(event, args, now_ns_);
    segment.by = grant.holder;
    Emit(std::max(grant.at_ns, begin_ns), segment);
  }
}

// Goes on at the awaited work, if it was done elsewhere within the wait. `owner` (Pitot's number): only on that thread,
// if it is known.
bool Walk::GoToWaker(const Piece& piece, int64_t begin_ns, uint32_t owner) {
  const Sign sign = LastDoneElsewhere(piece.event != kNone, begin_ns, now_ns_, owner);
  if (sign.thread == kNone) return false;
  BlameSegment woken;
  woken.blame = piece.event != kNone ? Blame::kHandoff : Blame::kUntraced;
  woken.thread = thread_;
  woken.event = piece.event;
  Emit(piece.event != kNone ? HandedOutNs(sign) : sign.at_ns, woken);
  BeginDetour(piece.event != kNone ? trace_.events.begin_ns[piece.event] : begin_ns);
  MoveToThread(sign.thread, now_ns_);
  return true;
}

// A result may be handed out late, after those of other requests. If the request got a later stage while the other
// thread was at work for nobody, it got the stage there.
int64_t Walk::HandedOutNs(const Sign& done) const {
  for (auto stage = row_.stages.rbegin(); stage != row_.stages.rend() && stage->begin_ns > done.at_ns; ++stage) {
    int64_t until_ns = INT64_MAX;
    if (stage->begin_ns < now_ns_ && index_.threads.BatchAt(done.thread, stage->begin_ns, &until_ns) == kNone &&
        index_.threads.RequestAt(done.thread, stage->begin_ns, &until_ns) == kNone)
      return stage->begin_ns;
  }
  return done.at_ns;
}

Sign Walk::LastDoneElsewhere(bool is_wait, int64_t after_ns, int64_t by_ns, uint32_t owner) {
  // A batch the request did not outlast hands out its results before its end: after the thread's last work. So does a
  // batch the request was still in when the batch's thread notified it. A thread with work of its own since the join
  // may have had the results before, unless it records a wait.
  Sign last = signs_.LastDone(thread_, after_ns, by_ns, owner);
  const int64_t least_ns = owner != 0 ? by_ns : blame_->end_ns;
  const auto* const begin = members_begin();
  const auto* in =
      std::partition_point(begin, members_end(), [&](const Membership& row) { return row.join_ns < by_ns; });
  for (uint32_t i = 0; i < kMostBatches && in != begin && (in - 1)->latest_leave_ns >= least_ns; ++i) {
    patience_.Count();
    const uint32_t thread = trace_.batches[(--in)->batch].thread;
    if (in->leave_ns < least_ns || thread == kNone || thread == thread_) continue;
    if (owner != 0 && trace_.threads[thread].number != owner) continue;
    const Piece piece = index_.threads.Before(thread, by_ns);
    if (piece.begin_ns <= in->join_ns || (is_wait ? piece.begin_ns : in->join_ns) <= after_ns) continue;
    const int64_t at_ns = piece.event == kNone && piece.call == kNone ? piece.begin_ns : by_ns;
    if (at_ns > last.at_ns) last = {thread, at_ns};
  }
  return last;
}

Sign Walk::LastSeenElsewhere(int64_t by_ns) { return signs_.LastSeen(thread_, by_ns); }

// The batch it was in, or joined next; kNone after its last.
uint32_t Walk::BatchAt(int64_t at_ns) const {
  const auto* const end = members_end();
  const auto* const in =
      std::partition_point(members_begin(), end, [&](const Membership& row) { return row.latest_leave_ns <= at_ns; });
  return in != end ? in->batch : kNone;
}

// The batch of which something was recorded, if it is one of its own. Otherwise the one it was in: an engine that
// schedules ahead works for two steps at once.
uint32_t Walk::OwnBatchOr(uint32_t recorded, int64_t at_ns) const {
  const bool is_own = recorded != kNone && std::binary_search(own_batches_.begin(), own_batches_.end(), recorded);
  return is_own ? recorded : BatchAt(at_ns);
}

// Whether the request is open and was last seen to begin `piece`: since then its thread may be running or asleep.
bool Walk::IsStillIn(const Piece& piece) const {
  return now_ns_ == blame_->end_ns && blame_->token == kNone && row_.duration_ns == model::kOpen &&
         trace_.events.duration_ns[piece.event] == model::kOpen;
}

// Whether `wait` lies in a batch that has run nothing yet: its thread waits for more members.
bool Walk::IsGathering(uint32_t wait) const {
  const uint32_t batch = trace_.events.batch[wait];
  return batch != kNone && index_.threads.CodeFromNs(trace_.events.thread[wait], trace_.batches[batch].begin_ns) >=
                               trace_.events.begin_ns[wait];
}

Blame Walk::BlameOfCode(int64_t at_ns) const {
  const auto* const begin = members_begin();
  const auto* const after =
      std::partition_point(begin, members_end(), [&](const Membership& row) { return row.join_ns < at_ns; });
  if (after != begin && at_ns <= (after - 1)->latest_leave_ns) return Blame::kHostOncpuFramework;
  if (calls_.begin_ns < at_ns && at_ns <= calls_.end_ns) return Blame::kHostOncpuFramework;
  if (at_ns > last_model_ns_) return last_model_ns_ == INT64_MIN ? Blame::kHostOncpuPre : Blame::kHostOncpuPost;
  return Blame::kHostOncpuPre;
}

}  // namespace pitot::blame
