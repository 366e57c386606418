// SPDX-License-Identifier: Apache-2.0
#include "simulator/reconstruct.h"

#include <algorithm>
#include <map>

#include "pitot/model/index.h"

namespace simulator {
namespace {

using namespace pitot::model;
using pitot::SiteKind;
using pitot::WaitKind;

// A part of a request's way: on a thread, or in the queue that the thread took it from.
struct Leg {
  enum class Kind { kStay, kQueue, kWakeUp } kind;
  uint32_t thread;  // row
  int64_t begin_ns, end_ns;
  std::string name;  // of the queue
};
struct Tenure {
  int64_t begin_ns, end_ns;
  uint32_t row;  // of the request or batch
};
struct Membership {
  int64_t join_ns, leave_ns;
  uint32_t batch;
};
struct LockGrant {
  int64_t at_ns;
  Culprit holder;
};

class Reconstruction {
 public:
  explicit Reconstruction(const Trace& trace)
      : trace_(trace),
        flat_(trace),
        index_(trace),
        batches_(trace.threads.size()),
        requests_(trace.threads.size()),
        memberships_(trace.requests.size()) {
    for (uint32_t row = 0; row < trace.batches.size(); ++row) {
      const BatchRow& batch = trace.batches[row];
      const int64_t end_ns = batch.duration_ns == kOpen ? trace.window_end_ns : batch.begin_ns + batch.duration_ns;
      batches_[batch.thread].push_back({batch.begin_ns, end_ns, row});
      for (uint32_t m = batch.first_member; m < batch.first_member + batch.member_count; ++m) {
        const MemberRow& member = trace.members[m];
        memberships_[member.request].push_back({member.join_ns, member.leave_ns != 0 ? member.leave_ns : end_ns, row});
      }
    }
    for (uint32_t event = 0; event < trace.events.size(); ++event) {
      if (KindOf(event) == SiteKind::kInstant && trace.EventName(event) == "release")
        releases_[Resource(event)].push_back(trace.events.begin_ns[event]);
    }
    for (auto& [name, times] : releases_) std::sort(times.begin(), times.end());
    for (uint32_t event = 0; event < trace.events.size(); ++event) {
      if (!IsWait(event, WaitKind::kLock)) continue;
      const uint32_t thread = trace.events.thread[event], row = trace.events.request[event];
      const uint64_t request = row != kNone ? trace.requests[row].id : 0;
      const int64_t granted_ns = Granted(event);
      locks_[Resource(event)].push_back({granted_ns, Holder(thread, request, granted_ns)});
    }
    for (auto& [name, grants] : locks_)
      std::sort(grants.begin(), grants.end(), [](auto& a, auto& b) { return a.at_ns < b.at_ns; });
    for (uint32_t row = 0; row < trace.requests.size(); ++row) legs_.push_back(Legs(row));
  }

  std::vector<Segment> Path(uint32_t row) const {
    std::vector<Segment> path;
    if (!trace_.requests[row].end_known) return path;
    for (const Leg& leg : legs_[row]) {
      if (leg.kind == Leg::Kind::kStay) Stay(row, leg, &path);
      if (leg.kind == Leg::Kind::kQueue) InQueue(leg, &path);
      if (leg.kind == Leg::Kind::kWakeUp)
        AppendSegment({leg.begin_ns, leg.end_ns, Cause::kHandoff, Number(leg.thread), leg.name, {}, {}}, &path);
    }
    return path;
  }

 private:
  // ---- Small questions.
  SiteKind KindOf(uint32_t event) const { return trace_.sites[trace_.events.site[event]].kind; }
  uint64_t Arg(uint32_t event, uint32_t i) const { return trace_.arg_values[trace_.events.args[event] + i]; }
  bool IsWait(uint32_t event) const { return KindOf(event) == SiteKind::kWait && trace_.events.args[event] != kNone; }
  bool IsWait(uint32_t event, WaitKind kind) const { return IsWait(event) && Arg(event, 0) == uint64_t(kind); }
  std::string Text(uint64_t id) const { return std::string(trace_.strings[static_cast<StringId>(id)]); }
  std::string Resource(uint32_t event) const { return Text(Arg(event, 1)); }
  uint32_t Number(uint32_t thread) const { return trace_.threads[thread].number; }
  uint32_t Outermost(uint32_t request) const {
    while (request != kNone && index_.Row(trace_.requests[request].parent_id) != kNone)
      request = index_.Row(trace_.requests[request].parent_id);
    return request;
  }
  // The row that has the thread then, or kNone; and until when at most.
  static uint32_t RowAt(const std::vector<Tenure>& tenures, int64_t ns, int64_t* until_ns) {
    uint32_t row = kNone;
    for (const Tenure& tenure : tenures) {
      if (tenure.end_ns <= ns) continue;
      if (tenure.begin_ns <= ns && row == kNone) row = tenure.row;
      *until_ns = std::min(*until_ns, tenure.begin_ns <= ns ? tenure.end_ns : tenure.begin_ns);
    }
    return row;
  }
  // The holder of a lock, and the batch its thread served then.
  Culprit Holder(uint32_t thread, uint64_t request, int64_t ns) const {
    int64_t until_ns = kForever;
    const uint32_t batch = RowAt(batches_[thread], ns, &until_ns);
    return {Number(thread), request, batch != kNone ? trace_.batches[batch].id : 0, {}};
  }
  // Calls visit(begin, end, event or kNone) for every piece of [begin, end) on the thread.
  template <class Visit> void Walk(uint32_t thread, int64_t begin_ns, int64_t end_ns, Visit visit) const {
    const auto& segments = flat_.Thread(thread);
    uint32_t at = flat_.Find(thread, begin_ns);
    if (at == kNone) at = 0;
    for (; at < segments.size() && segments[at].begin_ns < end_ns; ++at) {
      const auto& segment = segments[at];
      if (segment.end_ns <= begin_ns) continue;
      if (segment.begin_ns > begin_ns) visit(begin_ns, segment.begin_ns, kNone);
      begin_ns = std::max(begin_ns, segment.begin_ns);
      visit(begin_ns, std::min(segment.end_ns, end_ns), segment.event);
      begin_ns = std::min(segment.end_ns, end_ns);
    }
    if (begin_ns < end_ns) visit(begin_ns, end_ns, kNone);
  }

  // ---- Where a request was. Also notes the threads it kept busy.
  std::vector<Leg> Legs(uint32_t row) {
    const RequestRow& request = trace_.requests[row];
    const int64_t end_ns = trace_.RequestEnd(request);
    std::vector<Leg> legs;
    const auto stay = [&](uint32_t thread, int64_t begin_ns, int64_t until_ns) {
      legs.push_back({Leg::Kind::kStay, thread, begin_ns, until_ns, {}});
      requests_[thread].push_back({begin_ns, until_ns, row});
    };
    uint32_t thread = request.begin_thread;
    int64_t at_ns = AcceptedNs(row);
    legs.push_back({Leg::Kind::kQueue, thread, request.begin_ns, at_ns, "accept"});
    const auto handoffs = index_.Handoffs(row);
    for (const uint32_t* h = handoffs.begin(); h != handoffs.end(); ++h) {
      const HandoffRow& handoff = trace_.handoffs[*h];
      stay(thread, at_ns, handoff.enqueue_ns);
      if (handoff.take_ns == 0) return legs;  // still there
      legs.push_back({Leg::Kind::kQueue, handoff.to_thread, handoff.enqueue_ns, handoff.take_ns, Text(handoff.queue)});
      thread = handoff.to_thread;
      at_ns = handoff.take_ns;

      const bool is_last = h + 1 == handoffs.end();
      const uint32_t next = is_last ? request.end_thread : trace_.handoffs[h[1]].from_thread;
      if (next == thread || next == kNone) continue;
      // It left with its batch, and the thread that had sent it goes on. If that thread had no need to wait, its way
      // was the longer.
      const uint32_t* sent = h;
      while (trace_.handoffs[*sent].from_thread != next) --sent;
      const int64_t sent_ns = trace_.handoffs[*sent].enqueue_ns;
      const int64_t result_ns = ResultNs(row, thread, at_ns, is_last ? end_ns : trace_.handoffs[h[1]].enqueue_ns);
      stay(thread, at_ns, result_ns);
      thread = next;
      at_ns = sent_ns;
      if (const uint32_t wait = FutureWait(thread, result_ns); wait != kNone) {
        at_ns = trace_.EventEnd(wait);
        legs.push_back({Leg::Kind::kWakeUp, thread, result_ns, at_ns, Resource(wait)});
        requests_[thread].push_back({sent_ns, at_ns, row});
      } else {
        std::erase_if(legs, [&](const Leg& leg) { return leg.begin_ns >= sent_ns; });
      }
    }
    stay(thread, at_ns, end_ns);
    return legs;
  }

  // The model does not say when a request was accepted: its first scope on that thread begins then.
  int64_t AcceptedNs(uint32_t row) const {
    const RequestRow& request = trace_.requests[row];
    int64_t accepted_ns = trace_.RequestEnd(request);
    for (const uint32_t event : index_.Events(row)) {
      if (trace_.events.thread[event] == request.begin_thread && IsScope(KindOf(event)))
        accepted_ns = std::min(accepted_ns, trace_.events.begin_ns[event]);
    }
    return accepted_ns;
  }

  // When the request left the last batch on that thread that it joined in [from, until].
  int64_t ResultNs(uint32_t row, uint32_t thread, int64_t from_ns, int64_t until_ns) const {
    int64_t result_ns = from_ns;
    for (const Membership& in : memberships_[row]) {
      const bool is_there =
          trace_.batches[in.batch].thread == thread && in.join_ns >= from_ns && in.join_ns <= until_ns;
      if (is_there) result_ns = std::max(result_ns, in.leave_ns);
    }
    return result_ns;
  }

  // The thread's wait for a result at the time of the result.
  uint32_t FutureWait(uint32_t thread, int64_t result_ns) const {
    const uint32_t at = flat_.Find(thread, result_ns);
    if (at == kNone || flat_.Thread(thread)[at].end_ns <= result_ns) return kNone;
    const uint32_t event = flat_.Thread(thread)[at].event;
    return IsWait(event, WaitKind::kFuture) ? event : kNone;
  }

  // ---- The causes of that time.
  void Stay(uint32_t row, const Leg& leg, std::vector<Segment>* path) const {
    Walk(leg.thread, leg.begin_ns, leg.end_ns, [&](int64_t begin_ns, int64_t end_ns, uint32_t event) {
      Segment segment{begin_ns, end_ns, Cause::kOnCpu, Number(leg.thread), {}, {}, {}};
      if (event != kNone) segment.name = trace_.EventName(event);
      if (event != kNone && !IsWait(event)) {
        const uint32_t other = Outermost(trace_.events.request[event]);
        if (other != kNone && other != Outermost(row)) segment.culprit.request = trace_.requests[other].id;
      }
      if (event == kNone || !IsWait(event)) return AppendSegment(segment, path);
      segment.name = Resource(event);
      const auto kind = static_cast<WaitKind>(Arg(event, 0));
      if (kind == WaitKind::kLock) return InLock(event, segment, path);
      segment.cause = kind == WaitKind::kIo      ? Cause::kIoWait
                      : kind == WaitKind::kSleep ? Cause::kSleep
                                                 : Cause::kHandoff;
      if (kind == WaitKind::kQueue) {  // the thread waits for others to join
        segment.cause = Cause::kBatchWindow;
        if (const uint32_t batch = BatchAfter(row, begin_ns); batch != kNone) {
          segment.culprit.batch = trace_.batches[batch].id;
          segment.close = static_cast<pitot::BatchClose>(trace_.batches[batch].close);
        }
      }
      AppendSegment(segment, path);
    });
  }

  // The batch that the request was in, or joined next.
  uint32_t BatchAfter(uint32_t row, int64_t ns) const {
    Membership next{kForever, 0, kNone};
    for (const Membership& in : memberships_[row]) {
      if (in.leave_ns > ns && in.join_ns < next.join_ns) next = in;
    }
    return next.batch;
  }

  // When the awaited lock became the waiter's: at its last release. From then on it only had to wake up.
  int64_t Granted(uint32_t event) const {
    const int64_t end_ns = trace_.EventEnd(event);
    const auto releases = releases_.find(Resource(event));
    if (releases == releases_.end()) return end_ns;
    const auto after = std::upper_bound(releases->second.begin(), releases->second.end(), end_ns);
    if (after == releases->second.begin() || *(after - 1) < trace_.events.begin_ns[event]) return end_ns;
    return *(after - 1);
  }

  // The holder is known at the beginning; the next ones had to wait, too, until they got the lock.
  void InLock(uint32_t event, Segment segment, std::vector<Segment>* path) const {
    const int64_t end_ns = segment.end_ns, granted_ns = std::clamp(Granted(event), segment.begin_ns, end_ns);
    const auto holder = std::find_if(trace_.threads.begin(), trace_.threads.end(),
                                     [&](const ThreadRow& thread) { return thread.number == Arg(event, 2); });
    segment.cause = Cause::kLockWait;
    segment.culprit = Holder(static_cast<uint32_t>(holder - trace_.threads.begin()), Arg(event, 3), segment.begin_ns);
    for (const LockGrant& grant : locks_.at(segment.name)) {
      if (grant.at_ns < segment.begin_ns || grant.at_ns >= granted_ns) continue;
      segment.end_ns = grant.at_ns;
      AppendSegment(segment, path);
      segment.begin_ns = grant.at_ns;
      segment.culprit = grant.holder;
    }
    segment.end_ns = granted_ns;
    AppendSegment(segment, path);
    AppendSegment({granted_ns, end_ns, Cause::kHandoff, segment.thread, segment.name, {}, {}}, path);
  }

  // The activity of the later taker: idle, at work for a batch or a request, or for itself.
  void InQueue(const Leg& leg, std::vector<Segment>* path) const {
    Walk(leg.thread, leg.begin_ns, leg.end_ns, [&](int64_t begin_ns, int64_t end_ns, uint32_t event) {
      Segment segment{begin_ns, end_ns, Cause::kHandoff, Number(leg.thread), leg.name, {}, {}};
      if (event != kNone && IsWait(event, WaitKind::kQueue)) return AppendSegment(segment, path);
      for (; segment.begin_ns < end_ns; segment.begin_ns = segment.end_ns) {
        segment.end_ns = end_ns;
        uint32_t batch = event != kNone ? trace_.events.batch[event] : kNone;
        uint32_t request = event != kNone ? trace_.events.request[event] : kNone;
        if (batch == kNone && request == kNone) {  // the event does not say, but one may have had the thread
          batch = RowAt(batches_[leg.thread], segment.begin_ns, &segment.end_ns);
          request = RowAt(requests_[leg.thread], segment.begin_ns, &segment.end_ns);
        }
        request = Outermost(request);
        segment.culprit = {};
        if (batch != kNone)
          segment.culprit.batch = trace_.batches[batch].id;
        else if (request != kNone)
          segment.culprit.request = trace_.requests[request].id;
        else if (event != kNone)
          segment.culprit.doing = IsWait(event) ? Resource(event) : std::string(trace_.EventName(event));
        const bool was_busy = !(segment.culprit == Culprit{});
        segment.cause = was_busy ? Cause::kQueueWait : Cause::kHandoff;
        if (was_busy) segment.culprit.thread = segment.thread;
        AppendSegment(segment, path);
      }
    });
  }

  const Trace& trace_;
  ThreadFlatten flat_;
  RequestIndex index_;
  std::vector<std::vector<Tenure>> batches_, requests_;  // by thread
  std::vector<std::vector<Membership>> memberships_;     // by request
  std::map<std::string, std::vector<LockGrant>> locks_;
  std::map<std::string, std::vector<int64_t>> releases_;
  std::vector<std::vector<Leg>> legs_;
};

}  // namespace

std::vector<std::vector<Segment>> Reconstruct(const Trace& trace) {
  const Reconstruction reconstruction(trace);
  std::vector<std::vector<Segment>> paths;
  for (uint32_t row = 0; row < trace.requests.size(); ++row) paths.push_back(reconstruction.Path(row));
  return paths;
}

}  // namespace simulator
