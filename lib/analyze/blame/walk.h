// SPDX-License-Identifier: Apache-2.0
//
// The backward walk of one request: pitot/analyze/why.h says what it finds, docs/reference/walk.md has its rules.
#ifndef PITOT_LIB_ANALYZE_BLAME_WALK_H_
#define PITOT_LIB_ANALYZE_BLAME_WALK_H_

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "analyze/blame/compiles.h"
#include "analyze/blame/contexts.h"
#include "analyze/blame/first_use.h"
#include "analyze/blame/gpu_states.h"
#include "analyze/blame/gpu_use.h"
#include "analyze/blame/interpreter.h"
#include "analyze/blame/launching.h"
#include "analyze/blame/lone_waits.h"
#include "analyze/blame/mixed_work.h"
#include "analyze/blame/namespace.h"
#include "analyze/blame/request_spans.h"
#include "analyze/blame/route_sizes.h"
#include "analyze/blame/stacks.h"
#include "analyze/blame/stillness.h"
#include "analyze/blame/usual.h"
#include "analyze/blame/walk_gpu.h"
#include "analyze/blame/walk_host.h"
#include "analyze/blame/walk_signs.h"
#include "analyze/blame/walk_threads.h"
#include "analyze/blame/walk_waits.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/unusual_arguments.h"
#include "pitot/analyze/why.h"

namespace pitot::blame {

// Everything walks read. Built once, then constant.
class Index {
 public:
  Index(const model::Trace& of, const BlameOptions& how)
      : trace(of),
        options(how),
        patience_(how.is_over, how.is_over_context),
        requests(Ask(of)),
        memberships(Ask(of)),
        contexts(Ask(of), requests),
        threads(Ask(of), requests, memberships, &patience_),
        locks(Ask(of), requests, threads),
        gpu(Ask(of), how),
        interpreter(Ask(of), requests),
        host(Ask(of), threads, gpu, interpreter, how),
        gpu_use(Ask(of)),
        lone_waits(Ask(of), gpu, how),
        gpu_states(Ask(of)),
        mixed_work(Ask(of), contexts),
        launching(Ask(of), how),
        stillness(Ask(of)),
        stacks(Ask(of)),
        compiles(Ask(of)),
        first_uses(Ask(of), threads, gpu, how),
        usual(Ask(of)),
        route_sizes(Ask(of)),
        arguments(of, &patience_),
        request_spans(Ask(of), requests) {}
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  // Whether its parent is a request of the trace. A parent elsewhere sent a traceparent.
  bool IsPart(const model::RequestRow& row) const {
    return row.parent_id != 0 && requests.Row(row.parent_id) != model::kNone;
  }
  // The member whose work lengthened the segment's batch; null: the segment is not such a wait.
  const MixedWork::Part* PartBehind(const BlameSegment& segment) const;

  const model::Trace& trace;
  const BlameOptions options;

 private:
  // Each part goes over the whole trace.
  const model::Trace& Ask(const model::Trace& of) {
    patience_.Count(of.events.size() + of.calls.size() + of.gpu.size() + of.requests.size() + of.tokens.size());
    return of;
  }
  facts::Patience patience_;  // while the index is built

 public:
  const model::RequestIndex requests;
  const Memberships memberships;
  const Contexts contexts;
  const Threads threads;
  const Locks locks;
  const GpuOps gpu;
  const Interpreter interpreter;
  const HostUse host;
  const GpuUse gpu_use;
  const LoneWaits lone_waits;
  const GpuStates gpu_states;
  const MixedWork mixed_work;
  const Launching launching;
  const Stillness stillness;
  const Stacks stacks;
  const Compiles compiles;
  const FirstUses first_uses;
  const Usual usual;
  const RouteSizes route_sizes;
  const facts::UsualArguments arguments;
  const RequestSpans request_spans;
};

// Time of a thread that somebody else waited for: in work for a batch or a request, or with a lock.
struct Stay {
  uint32_t thread = model::kNone;
  // Whose time it was. Without a batch it is the request's own walk, begun on that thread. Without both it is the
  // thread's time, whoever had it.
  uint32_t batch = model::kNone;
  uint32_t request = model::kNone;
  model::Interval when;
};

// One walk. EmitOne is the only function that moves time, and only backwards, so segments are contiguous. They add up
// to the latency once the request's begin is reached.
class Walk {
 public:
  Walk(const Index& index, uint32_t request, RequestBlame* blame);
  // Run then walks the stay, from its end to its beginning. Work for single members of a batch counts as the batch's.
  Walk(const Index& index, const Stay& stay, RequestBlame* blame);
  // False if it could not begin: the row's begin or end is not known. `blame` has the segments found, oldest first.
  bool Run();
  // Walks a part of it: from `since_ns` to an output token (a row of the trace), on the thread that put the token out.
  // False if that thread is unknown.
  bool RunTo(uint32_t token, int64_t since_ns);

 private:
  // How the request came to a thread.
  struct Arrival {
    enum class How : uint8_t { kBegin, kHandoff, kUnknown } how = How::kUnknown;
    int64_t at_ns = 0;
    uint32_t handoff = 0;  // of its handoffs, counted from the first
  };
  // ---- walk.cc: threads
  void Emit(int64_t begin_ns, const BlameSegment& segment);
  void EmitUnheld(int64_t begin_ns, const BlameSegment& segment);
  uint32_t WantsInterpreter(const BlameSegment& segment) const;
  void EmitDivided(int64_t begin_ns, const BlameSegment& segment, const OffCpu& off);
  void TakeGpuUse(int64_t begin_ns, const BlameSegment& segment, OffCpu* off) const;
  void DivideByGpuUse(int64_t begin_ns, uint32_t batch, OffCpu* off) const;
  BlameSegment WhoseWork(BlameSegment segment) const;
  void EmitPart(int64_t begin_ns, BlameSegment segment);
  void EmitOne(int64_t begin_ns, BlameSegment segment);
  void EmitMixed(int64_t begin_ns, const BlameSegment& segment);
  void EmitLaunches(int64_t begin_ns, const BlameSegment& segment);
  OffCpu OfWakeUp(uint32_t thread, int64_t begin_ns);
  OffCpu OfWindow(int64_t begin_ns, const BlameSegment& segment);
  void FindOwn();
  void FindOwnOfStay();
  void Begin();
  void GoBack();
  void MoveToThread(uint32_t thread, int64_t at_ns);
  void BeginDetour(int64_t waits_since_ns);
  void EndDetour();
  int64_t WaitedNs(uint32_t thread, int64_t begin_ns, int64_t end_ns);
  bool MayAwait(const Piece& piece) const;
  Arrival FindArrival();
  Piece PieceBefore() const;
  void StepOnThread();
  std::optional<BlameSegment> InInterpreter(uint32_t thread, const Piece& piece, int64_t at_ns) const;
  void Arrive();
  int64_t InQueueFromNs(const model::HandoffRow& handoff) const;
  void Wait(const Piece& piece, int64_t begin_ns, const WaitArgs& args);
  void WaitForLock(uint32_t event, int64_t begin_ns, const WaitArgs& args);
  bool GoToWaker(const Piece& piece, int64_t begin_ns, uint32_t owner);
  int64_t HandedOutNs(const Sign& done) const;
  Sign LastDoneElsewhere(bool is_wait, int64_t after_ns, int64_t by_ns, uint32_t owner);
  Sign LastSeenElsewhere(int64_t by_ns);
  uint32_t OwnBatchOr(uint32_t recorded, int64_t at_ns) const;
  uint32_t BatchOfSpan(uint32_t span, int64_t at_ns) const;
  uint32_t BatchAt(int64_t at_ns) const;
  Blame BlameOfCode(int64_t at_ns) const;
  uint32_t OtherOf(uint32_t request) const;
  bool IsGathering(uint32_t wait) const;
  bool IsStillIn(const Piece& piece) const;
  // Its times in batches, by join.
  const Membership* members_begin() const;
  const Membership* members_end() const;

  // ---- walk_queue.cc: the thread's work while the request was in a queue before it
  enum class Before : uint8_t { kBegin, kTake };  // the thread began it, or took it from a queue
  void Tile(uint32_t thread, int64_t begin_ns, Before before, uint32_t handoff);
  BlameSegment TileOf(uint32_t thread, const Piece& piece, int64_t at_ns, int64_t* until_ns, Before before,
                      uint32_t handoff);
  void EmitIdle(int64_t begin_ns, const BlameSegment& idle);
  bool AwaitsWork(uint32_t wait, const WaitArgs& args, uint32_t handoff);

  // ---- walk_device.cc: calls of the GPU's API, and GPUs
  void Call(const Piece& piece, int64_t begin_ns);
  Blame BlameOfCopy(uint32_t op) const;
  Blame BlameOfCopying(uint32_t call) const;
  Blame BlameOfCall(int64_t begin_ns, uint32_t call) const;
  void EmitCall(int64_t begin_ns, uint32_t call, uint32_t event);
  void EmitLaunch(int64_t begin_ns, BlameSegment segment);
  void EmitInCall(int64_t begin_ns, const BlameSegment& segment);
  bool IsGpuKnown(int64_t begin_ns) const;
  void EmitWaitInCall(int64_t begin_ns, BlameSegment rest);
  void EmitQueue(int64_t begin_ns, uint32_t span, BlameSegment waits);
  struct Contention {
    int64_t ns = 0;
    Culprit by;
  };
  template <class IsOther> Contention WorkBeside(uint32_t span, model::Interval when, const IsOther& is_other);
  int64_t BeyondUsualNs(uint32_t span) const;
  void EmitContended(int64_t begin_ns, int64_t most_ns, BlameSegment working);
  void WaitForSpans(const Piece& piece, int64_t begin_ns, uint32_t op);
  void ExecuteSpan(const Piece& piece, int64_t begin_ns, uint32_t op);
  void MoveToGpu(uint32_t op, int64_t ready_ns, uint32_t thread, uint32_t call);
  void StepOnGpu();
  void Execute(uint32_t op);
  bool BlameAllocation(int64_t since_ns, BlameSegment* late) const;
  struct Holder {  // of the driver's lock
    Culprit by;
    uint32_t call = model::kNone;
  };
  Holder InDriver(uint32_t thread, model::Interval when);
  bool GoBehindDriver(model::Interval when, int64_t begin_ns, uint32_t call, BlameSegment rest);
  bool LaunchBehindDriver(uint32_t call, int64_t begin_ns);
  bool CodeBehindDriver(const Piece& piece, int64_t begin_ns, const BlameSegment& code);
  void EmitLate(uint32_t op, int64_t since_ns, const BlameSegment& late);
  void LeaveGpu();
  bool IsOwn(uint32_t op) const;
  bool IsOthers(uint32_t op) const;
  Culprit OwnerOf(uint32_t op) const;

  const Index& index_;
  const model::Trace& trace_;
  RequestBlame* const blame_;
  const std::optional<Stay> stay_;
  const uint32_t request_;               // kNone: a stay for a batch, or for nobody known
  const model::RequestRow row_of_stay_;  // in place of a request's
  std::vector<Membership> batch_of_stay_;
  const model::RequestRow& row_;
  const model::RequestIndex::Range handoffs_;
  std::map<uint32_t, int64_t> by_others_ns_;         // by span: what was blamed on others' work beside or before it
  std::vector<uint32_t> own_threads_, own_batches_;  // of it and its batches; the batches it was in; ascending
  facts::Patience patience_;
  Signs signs_;

  // The cursor: a moment, and the thread or the operation needed by the request then.
  int64_t now_ns_ = 0;
  uint32_t thread_ = model::kNone;
  uint32_t op_ = model::kNone;                                    // kNone: it is on a thread
  Arrival arrival_;                                               // to thread_
  uint32_t handoffs_left_ = 0;                                    // the walk has not passed these yet
  std::unordered_map<uint32_t, std::vector<uint32_t>> taken_on_;  // of these, by the receiving thread or kNone
  // For op_: since when the GPU could have had it, and its caller.
  int64_t ready_ns_ = 0;
  uint32_t ready_thread_ = model::kNone, ready_call_ = model::kNone;
  uint32_t own_op_ = model::kNone;  // waits behind op_, if that is another's

  model::Interval calls_;              // from its own first call of a GPU's API to the end of the last
  int64_t last_model_ns_ = INT64_MIN;  // the last end of these and of its batches
  struct Away {
    uint32_t thread;
    int64_t waits_since_ns, end_ns;
  };
  std::vector<Away> away_;  // detours the walk is in
  struct Waited {
    int64_t begin_ns = INT64_MIN, end_ns = INT64_MAX, ns = 0;
  };
  std::unordered_map<uint32_t, Waited> waited_;            // by thread, the known part of its waits
  std::optional<uint32_t> window_batch_;                   // the walk has passed this batch's last wait for members
  int64_t window_waited_ns_ = 0;                           // and so much of its waits, without late wake-ups
  std::unordered_map<uint32_t, HostUse::Woken> woken_ns_;  // by thread, the delays blamed already
  uint32_t moves_ = 0;  // without a step in time; at most kMostMoves, whatever the rows say
};

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_WALK_H_
