// SPDX-License-Identifier: Apache-2.0
//
// A request in a queue waited for whatever the receiving thread did meanwhile. If the thread was idle, it only had to
// wake up; if it was at work for others, they are named.
#include <algorithm>
#include <utility>

#include "analyze/blame/walk.h"

namespace pitot::blame {

using model::kNone;

// Tiles the time before the cursor, down to `begin_ns`, by the work of `thread`. `handoff` kNone: the queue was not
// recorded.
void Walk::Tile(uint32_t thread, int64_t begin_ns, Before before, uint32_t handoff) {
  begin_ns = std::max(begin_ns, blame_->begin_ns);
  while (now_ns_ > begin_ns) {
    const Piece piece = index_.threads.Before(thread, now_ns_);
    const int64_t from_ns = std::max(piece.begin_ns, begin_ns), end_ns = now_ns_;
    // The owner may change within a piece: owners are found from its beginning, and emitted from its end.
    std::vector<BlameSegment> parts;
    for (int64_t at_ns = from_ns; at_ns < end_ns;) {
      patience_.Count();
      int64_t until_ns = end_ns;
      BlameSegment part = TileOf(thread, piece, at_ns, &until_ns, before, handoff);
      part.handoff = handoff;
      part.begin_ns = at_ns;
      parts.push_back(part);
      at_ns = until_ns;
    }
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      const bool is_idle = part->blame == Blame::kHandoff && handoff != kNone && request_ != kNone;
      is_idle ? EmitIdle(part->begin_ns, *part) : Emit(part->begin_ns, *part);
    }
  }
}

// The time in which the taking thread waited for work. A sender that waited meanwhile, for the same request, for the
// queue's lock, or for one that it got just before the request was taken, had not put it in yet: the program recorded
// it before.
void Walk::EmitIdle(int64_t begin_ns, const BlameSegment& idle) {
  const model::HandoffRow& row = trace_.handoffs[idle.handoff];
  const uint32_t sender = row.from_thread;
  for (int64_t at_ns = now_ns_; sender != kNone && at_ns > begin_ns;) {
    patience_.Count();
    const Piece piece = index_.threads.Before(sender, at_ns);
    const int64_t from_ns = std::max(piece.begin_ns, begin_ns);
    WaitArgs args;
    const auto is_before_queue = [&] {
      const int64_t since_lock_ns = row.take_ns - trace_.EventEnd(piece.event);
      return args.resource == row.queue || (since_lock_ns >= 0 && since_lock_ns <= index_.options.wake_up_ns);
    };
    if (ReadWait(trace_, piece.event, &args) && args.kind == WaitKind::kLock &&
        trace_.events.request[piece.event] == request_ && is_before_queue()) {
      Emit(at_ns, idle);
      const uint32_t taker = std::exchange(thread_, sender);
      WaitForLock(piece.event, from_ns, args);
      thread_ = taker;
    }
    at_ns = from_ns;
  }
  Emit(begin_ns, idle);
}

// Whether a wait was for work of the queue. It was if it filled the batch that took the request (a condition, or the
// lock that comes with one), or if a request put into this queue ended it.
bool Walk::AwaitsWork(uint32_t wait, const WaitArgs& args, uint32_t handoff) {
  if (handoff == kNone) return false;
  const model::HandoffRow& row = trace_.handoffs[handoff];
  const uint32_t batch = trace_.events.batch[wait];
  if (args.kind == WaitKind::kLock) return batch != kNone && batch == row.batch && IsGathering(wait);
  if (args.kind != WaitKind::kCondition) return false;
  if (batch != kNone) return batch == row.batch;
  const uint32_t notifier = args.owner_request != 0 ? index_.requests.Row(args.owner_request) : kNone;
  if (notifier == kNone) return false;
  const model::RequestIndex::Range sent = index_.requests.Handoffs(notifier);
  patience_.Count(sent.size());
  return std::any_of(sent.begin(), sent.end(), [&](uint32_t one) { return trace_.handoffs[one].queue == row.queue; });
}

BlameSegment Walk::TileOf(uint32_t thread, const Piece& piece, int64_t at_ns, int64_t* until_ns, Before before,
                          uint32_t handoff) {
  BlameSegment part;
  part.thread = thread;
  part.event = piece.event;
  part.call = piece.call;
  if (const auto in_interpreter = InInterpreter(thread, piece, at_ns)) return *in_interpreter;
  WaitArgs args;
  const bool is_wait = ReadWait(trace_, piece.event, &args);
  if (is_wait && (args.kind == WaitKind::kQueue || AwaitsWork(piece.event, args, handoff))) {
    part.blame = Blame::kHandoff;
    return part;
  }
  // A scope around the request's own work is not other work.
  const bool is_around = before == Before::kBegin && !is_wait && piece.event != kNone &&
                         trace_.EventEnd(piece.event) > arrival_.at_ns && trace_.events.request[piece.event] == kNone;
  uint32_t batch = kNone, request = kNone;
  if (piece.event != kNone) {
    batch = trace_.events.batch[piece.event];
    request = trace_.events.request[piece.event];
  }
  if (batch == kNone && request == kNone && piece.call != kNone) {
    batch = trace_.calls.batch[piece.call];
    request = trace_.calls.request[piece.call];
  }
  if (batch == kNone && request == kNone && thread != kNone) {  // no event names the owner
    batch = index_.threads.BatchAt(thread, at_ns, until_ns);
    request = index_.threads.RequestAt(thread, at_ns, until_ns);
  }
  request = Outermost(trace_, index_.requests, request);
  part.batch = BatchAt(at_ns);
  if (before == Before::kBegin && batch != kNone && batch == part.batch) {  // begun by its executor
    if (piece.event != kNone) part.blame = Blame::kHostOncpuFramework;
    return part;
  }
  // A thread may still be at work for the request after sending it on: a request in a queue waits for that, too.
  if (batch == kNone && (request == kNone || (request == request_ && before == Before::kBegin))) {
    if (request == kNone && piece.event != kNone && !is_around) {  // something of its own
      part.blame = before == Before::kBegin ? Blame::kAdmissionQueue : Blame::kQueueWaitOthers;
      part.by.thread = thread;
      part.by.event = piece.event;
    } else if (piece.event != kNone) {
      part.blame = BlameOfCode(at_ns);
    } else if (thread == kNone && handoff != kNone) {  // the queue is known, and nothing more
      part.blame = Blame::kQueueWaitOthers;
    }  // otherwise the thread recorded nothing: idle or not is unknown
    return part;
  }
  part.by.thread = thread;
  part.by.batch = batch;
  if (batch == kNone) part.by.request = request;
  part.blame = before == Before::kBegin ? Blame::kAdmissionQueue
               : batch != kNone         ? Blame::kExecutorBusy
                                        : Blame::kQueueWaitOthers;
  return part;
}

}  // namespace pitot::blame
