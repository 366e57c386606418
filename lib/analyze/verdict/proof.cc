// SPDX-License-Identifier: Apache-2.0
#include "analyze/verdict/proof.h"

#include <algorithm>
#include <string_view>

#include "analyze/facts/gpu_counters.h"
#include "analyze/facts/quality.h"
#include "analyze/verdict/depths.h"
#include "analyze/verdict/gpu_evidence.h"
#include "analyze/verdict/verdict_words.h"
#include "base/call_class.h"
#include "base/host_counters.h"
#include "model/parts.h"

namespace pitot::verdict {

namespace {

constexpr uint32_t kLeastLike = 8;  // needed for a usual median

// The same work in more pieces.
Proof OfPieces(const analyze::Verdict& verdict) {
  return verdict.more_of == "launches"     ? Proof::kMoreLaunches
         : verdict.more_of == kWaitsForGpu ? Proof::kManyWaits
                                           : Proof::kNone;
}

// Whether most of it is in returns too short to prove that the thread came back late.
bool IsManyWaits(const blame::Index& index, const RequestBlame& blame, Blame of) {
  int64_t short_ns = 0;
  for (const BlameSegment& segment : blame.segments) {
    const int64_t ns = segment.end_ns - segment.begin_ns;
    if (segment.blame == of && ns <= index.options.dispatch_gap_ns) short_ns += ns;
  }
  return 2 * short_ns > blame.blame[of];
}

// Compares launches with the median launch. If so many median launches take more than twice the part's normal time,
// there were more of them. Otherwise they were slow if at least half of the excess is beyond that time.
Proof OfLaunches(const blame::Index& index, const RequestBlame& blame, const Cause& cause) {
  if (cause.blame != Blame::kLaunchApi) return Proof::kNone;
  const BlameSegment& longest = blame.segments[cause.longest[0]];
  const bool are_counted = longest.batch != model::kNone && index.trace.batches[longest.batch].launches != 0;
  if (are_counted) return Proof::kNone;  // together, or slow ones alone: the median of one is not known
  const auto launches = std::count_if(blame.segments.begin(), blame.segments.end(),
                                      [](const BlameSegment& segment) { return segment.blame == Blame::kLaunchApi; });
  const int64_t usual_ns = launches * index.gpu.MedianLaunchNs();
  if (launches > 1 && usual_ns > 2 * cause.normal_ns) return Proof::kMoreLaunches;
  const bool are_slow = cause.excess_ns > 0 && 2 * (cause.blame_ns - usual_ns) >= cause.excess_ns;
  return are_slow ? Proof::kSlowLaunches : Proof::kNone;
}

// Whether the batch or request waited for took longer than twice the median of its like.
bool IsBehindLong(const blame::Index& index, const Culprit& by) {
  if (by.batch != model::kNone) {
    const blame::Usual::Lengths like = index.usual.OfBatch(by.batch);
    return like.count >= kLeastLike && index.usual.BatchNs(by.batch) / 2 > like.median_ns;
  }
  if (by.request == model::kNone || !index.trace.requests[by.request].end_known) return false;
  const blame::Usual::Lengths like = index.usual.OfRequest(by.request);
  return like.count >= kLeastLike && index.trace.requests[by.request].duration_ns / 2 > like.median_ns;
}

}  // namespace

bool IsStolen(const model::Trace& trace, const BlameSegment& segment) {
  if (segment.blame != Blame::kHostRunqueue || segment.counter == model::kNone) return false;
  const std::string_view name = model::Parts(trace).Split(trace.strings[trace.counters[segment.counter].name]).own;
  return base::IsThreadCounter(name) && name.ends_with(base::kOnCpu.name);
}

bool IsUnseen(const BlameSegment& segment) {
  return segment.blame == Blame::kUntraced && segment.event != model::kNone && segment.call == model::kNone &&
         segment.gpu == model::kNone;
}

namespace {

// Whether most of a request's sleep was in waits for a GPU, or in recorded waits for something else.
bool IsSleepFor(bool device, const model::Trace& trace, const RequestBlame& blame) {
  int64_t slept_ns = 0, named_ns = 0;
  for (const BlameSegment& segment : blame.segments) {
    if (segment.blame != Blame::kHostBlockedUnknown) continue;
    blame::WaitArgs args;
    slept_ns += segment.end_ns - segment.begin_ns;
    if (blame::ReadWait(trace, segment.event, &args) && (args.kind == WaitKind::kDevice) == device)
      named_ns += segment.end_ns - segment.begin_ns;
  }
  return slept_ns > 0 && 2 * named_ns > slept_ns;
}

// Model code that may be a wait for the GPU. The walk has already taken from the code of a batch without a recorded
// wait what counters of its GPU tell.
struct Doubtful {
  int64_t unseen_ns = 0, busy_ns = 0;  // see GpuDoubt
};
Doubtful DoubtfulOf(const blame::Index& index, const BlameSegment& segment) {
  if (segment.batch == model::kNone || segment.call != model::kNone || index.gpu.OpsOfBatch(segment.batch) != 0)
    return {};
  // Without depths, recorded calls alone do not say that kernels would be there.
  const bool are_kernels_known =
      index.trace.depths.empty()
          ? index.gpu.AreOperationsRecorded(segment.begin_ns, segment.end_ns)
          : ForGpus(facts::DepthOf(index.trace, segment.begin_ns, segment.end_ns)) == Depth::kKernels;
  if (are_kernels_known) return {};
  const blame::GpuUse::Device* device = index.gpu_use.Of(segment.batch, segment.thread);
  if (device != nullptr && !device->IsSampled(segment.begin_ns, segment.end_ns)) device = nullptr;
  if (index.gpu.HasWaits(segment.batch)) {
    const auto engine = blame::GpuUse::kCompute;
    return {0, device == nullptr ? 0 : device->BusyNs(engine, segment.begin_ns, segment.end_ns)};
  }
  const bool are_seen = facts::AreWaitsRecorded(index.trace) && index.gpu.HasWaitsOfExecutor(segment.batch);
  return {device != nullptr || are_seen ? 0 : segment.end_ns - segment.begin_ns, 0};
}

bool HasCounters(const blame::Index& index, const BlameSegment& segment) {
  return index.host.IsKnown(segment.thread, segment.begin_ns, segment.end_ns);
}

int64_t Length(const BlameSegment& segment) { return segment.end_ns - segment.begin_ns; }

// Null: there is none.
const BlameSegment* LongestOf(const RequestBlame& blame, Blame part) {
  const BlameSegment* longest = nullptr;
  for (const BlameSegment& segment : blame.segments) {
    if (segment.blame == part && (longest == nullptr || Length(segment) > Length(*longest))) longest = &segment;
  }
  return longest;
}

// Whether the stacks have a place, and nearly all of them a thread asleep.
bool IsAsleepAt(const blame::Stacks::Seen& seen) { return seen.is_known() && 4 * seen.asleep >= 3 * seen.count; }

// Whether samples show the function in which the thread was busy, in most of the time that is not recorded.
bool IsBusy(const blame::Index& index, const RequestBlame& blame) {
  if (!HasRun(StacksOfPart(index, blame, Blame::kUntraced))) return false;
  const uint32_t thread = LongestOf(blame, Blame::kUntraced)->thread;
  int64_t there_ns = 0;
  for (const BlameSegment& segment : blame.segments) {
    if (segment.blame == Blame::kUntraced && segment.thread == thread) there_ns += Length(segment);
  }
  return 4 * there_ns >= 3 * blame.blame[Blame::kUntraced];
}

}  // namespace

bool IsCounted(const blame::Index& index, const BlameSegment& segment) {
  constexpr uint32_t kMayLackCpu = kOnCpu | BlameBit(Blame::kUntraced);
  return (kMayLackCpu & BlameBit(segment.blame)) == 0 || HasCounters(index, segment);
}

bool MayAwaitDriver(const blame::Index& index, const BlameSegment& segment) {
  if (segment.blame != Blame::kLazyLoadJit || segment.call == model::kNone) return false;
  if (!index.trace.strings[index.trace.calls.name[segment.call]].ends_with(base::kLoadingSuffix)) return false;
  const int64_t slept_ns = index.host.MostSleptNs(segment.thread, segment.begin_ns, segment.end_ns);
  return slept_ns > (segment.end_ns - segment.begin_ns) / 2;
}

StackPlace StacksOfCode(const blame::Index& index, const std::vector<BlameSegment>& segments, const BlameSegment& at) {
  using Counters = blame::Stacks::Counters;
  return index.stacks.OfCode(segments, at, HasCounters(index, at) ? Counters::kKnown : Counters::kUnknown);
}

StackPlace StacksOfPart(const blame::Index& index, const RequestBlame& blame, Blame part) {
  const BlameSegment* const longest = LongestOf(blame, part);
  return longest == nullptr ? StackPlace() : StacksOfCode(index, blame.segments, *longest);
}

bool HasRun(const StackPlace& place) { return place.is_known() && blame::Stacks::IsSure(place.on_cpu, place.count); }

bool IsNamedSleep(const model::Trace& trace, const RequestBlame& blame) { return IsSleepFor(false, trace, blame); }
bool IsDeviceSleep(const model::Trace& trace, const RequestBlame& blame) { return IsSleepFor(true, trace, blame); }

GpuDoubt MayAwaitGpu(const blame::Index& index, const RequestBlame& blame) {
  if (index.trace.devices.empty() && facts::GpuCountersOf(index.trace).empty()) return GpuDoubt::kNone;
  int64_t code_ns = 0, unseen_ns = 0, busy_ns = 0;
  for (const BlameSegment& segment : blame.segments) {
    if (segment.blame != Blame::kHostOncpuFramework) continue;
    const Doubtful doubtful = DoubtfulOf(index, segment);
    code_ns += segment.end_ns - segment.begin_ns;
    unseen_ns += doubtful.unseen_ns;
    busy_ns += doubtful.busy_ns;
  }
  if (code_ns == 0 || 2 * (unseen_ns + busy_ns) < code_ns) return GpuDoubt::kNone;
  return unseen_ns >= busy_ns ? GpuDoubt::kUnseen : GpuDoubt::kBusy;
}

bool IsStill(const blame::Index& index, const RequestBlame& blame, Blame part) {
  if (part != Blame::kHostBlockedUnknown && part != Blame::kUntraced) return false;
  int64_t part_ns = 0, still_ns = 0;
  uint32_t thread = model::kNone;
  for (const BlameSegment& segment : blame.segments) {
    if (segment.blame != part) continue;
    part_ns += segment.end_ns - segment.begin_ns;
    if (thread == model::kNone) thread = segment.thread;
    // Sleep was measured. A thread that recorded nothing may have waited for one without a CPU.
    still_ns += part == Blame::kUntraced
                    ? index.stillness.StillWithCpusNs(segment.thread, segment.begin_ns, segment.end_ns)
                    : index.stillness.StillNs(segment.thread, segment.begin_ns, segment.end_ns);
  }
  // A stretch by counters has its place within its code, not its moment.
  if (part == Blame::kHostBlockedUnknown)
    still_ns = std::max(still_ns, std::min(index.stillness.StillNs(thread, blame.begin_ns, blame.end_ns), part_ns));
  return part_ns > 0 && 2 * still_ns > part_ns;
}

namespace {

bool IsPlacedByStacks(const blame::Index& index, const RequestBlame& blame, Blame part) {
  if (part == Blame::kUntraced && IsBusy(index, blame)) return true;
  const blame::Stacks::Seen seen = index.stacks.Of(blame.segments, part);
  if (!seen.is_sure() || 2 * seen.covered_ns < blame.blame[part]) return false;
  return part != Blame::kUntraced || IsAsleepAt(seen);
}

}  // namespace

bool IsInSpan(const blame::Index& index, const RequestBlame& blame, Blame part) {
  if (part != Blame::kUntraced) return false;
  const blame::SlowSpan span = index.request_spans.InUnrecorded(blame);
  return span.name != 0 && !span.is_whole && !IsPlacedByStacks(index, blame, part);
}

bool IsPlaced(const blame::Index& index, const RequestBlame& blame, Blame part) {
  return IsPlacedByStacks(index, blame, part) || IsInSpan(index, blame, part);
}

blame::MixedWork::Doubt MayBeMixed(const blame::Index& index, const RequestBlame& blame) {
  using Doubt = blame::MixedWork::Doubt;
  int64_t work_ns = 0, unsure_ns = 0;
  Doubt largest = Doubt::kNone;
  const model::RequestRow& row = index.trace.requests[blame.request];
  const int64_t first_token_ns = row.first_token_ns != 0 ? row.begin_ns + row.first_token_ns : INT64_MAX;
  for (const BlameSegment& segment : blame.segments) {
    if (segment.blame != Blame::kHostOncpuFramework && segment.blame != Blame::kHostBlockedUnknown) continue;
    work_ns += segment.end_ns - segment.begin_ns;
    if (segment.batch == model::kNone) continue;
    const Doubt doubt = index.mixed_work.OfBatch(segment.batch).doubt;
    const bool is_of_prompt = doubt == Doubt::kNoSize || doubt == Doubt::kFewPrompts;
    // Its own prompt is its own.
    if (doubt == Doubt::kNone || (is_of_prompt && index.trace.batches[segment.batch].begin_ns < first_token_ns))
      continue;
    unsure_ns += segment.end_ns - segment.begin_ns;
    if (largest != Doubt::kNoSize) largest = doubt;
  }
  return unsure_ns == 0 || 2 * unsure_ns < work_ns ? Doubt::kNone : largest;
}

Proof ProofOf(const blame::Index& index, const RequestBlame& blame, const Cause& cause, const Verdict& verdict) {
  if (cause.longest.empty()) return Proof::kNone;
  const BlameSegment& longest = blame.segments[cause.longest[0]];
  switch (cause.blame) {
    case Blame::kHostRunqueue:
      if (index.host.ThrottledNs(longest.thread, blame.begin_ns, blame.end_ns) > 0) return Proof::kQuota;
      return IsStolen(index.trace, longest) ? Proof::kStolen : Proof::kNone;
    case Blame::kHostPagefaultIo:
      return longest.counter != model::kNone ? Proof::kMajorFaults : Proof::kNone;
    case Blame::kHostBlockedUnknown:
      if (IsStill(index, blame, cause.blame)) return Proof::kStoodStill;
      if (MayBeMixed(index, blame) != blame::MixedWork::Doubt::kNone) return Proof::kMayBeMixed;
      if (longest.thread != model::kNone &&
          index.locks.Behind(longest.thread, longest.begin_ns, longest.end_ns).threads != 0)
        return Proof::kHeldLock;
      if (IsDeviceSleep(index.trace, blame)) return Proof::kMayAwaitGpu;
      if (IsNamedSleep(index.trace, blame)) return Proof::kNamedWait;
      return index.stacks.Of(blame.segments, cause.blame).is_known() ? Proof::kPlaced : Proof::kNone;
    case Blame::kExecutorBusy:
      if (const blame::MixedWork::Part* part = index.PartBehind(longest); part != nullptr && part->work > 0)
        return Proof::kLargeMember;
      if (longest.by.batch == model::kNone && longest.by.request != model::kNone) return Proof::kInOwnBatch;
      if (!index.first_uses.Of(longest).empty()) return Proof::kFirstUse;
      [[fallthrough]];
    case Blame::kQueueWaitOthers:
      if (index.interpreter.IsStep(longest.by.event)) return Proof::kHeldLoop;
      return 2 * cause.by_ns > cause.excess_ns && IsBehindLong(index, cause.by) ? Proof::kBehindLong : Proof::kNone;
    case Blame::kHostOncpuFramework:
      if (MayBeMixed(index, blame) != blame::MixedWork::Doubt::kNone) return Proof::kMayBeMixed;
      switch (MayAwaitGpu(index, blame)) {
        case GpuDoubt::kUnseen:
          return Proof::kMayAwaitGpu;
        case GpuDoubt::kBusy:
          return Proof::kMayPollGpu;
        case GpuDoubt::kNone:
          break;
      }
      if (!index.first_uses.Of(longest).empty()) return Proof::kFirstUse;
      if (const Proof proof = OfPieces(verdict); proof != Proof::kNone) return proof;
      [[fallthrough]];
    case Blame::kHostOncpuPre:
    case Blame::kHostOncpuPost:
      if (!IsCounted(index, longest) && !HasRun(cause.stacks)) return Proof::kUncounted;
      return cause.stacks.is_known() ? Proof::kPlaced : Proof::kNone;
    case Blame::kLaunchApi:
    case Blame::kLaunchLatency:
      if (const Proof proof = OfPieces(verdict); proof != Proof::kNone) return proof;
      if (longest.by.IsKnown() && 2 * cause.by_ns >= cause.excess_ns) return Proof::kInDriver;
      return OfLaunches(index, blame, cause);
    case Blame::kGpuExcessUnknown:
      return ProofOfGpuState(GpuStateOf(index, blame, cause));
    case Blame::kGpuExecExpected:
      if (const Proof proof = ProofOfGpuState(GpuStateOf(index, blame, cause)); proof != Proof::kNone) return proof;
      // A longer span holds more work, or slower: it cannot tell.
      return longest.gpu == model::kNone || index.gpu.IsSpan(longest.gpu) || index.gpu.UsualNs(longest.gpu) < 0
                 ? Proof::kNoUsual
                 : Proof::kNone;
    case Blame::kHostGc:
      return index.interpreter.IsStop(longest.by.event) ? Proof::kAllStopped : Proof::kNone;
    case Blame::kLazyLoadJit:
      return index.compiles.Is(longest.event) ? Proof::kFirstUse : Proof::kNone;
    case Blame::kSyncReturn:
      return IsManyWaits(index, blame, cause.blame) ? Proof::kManyWaits : Proof::kNone;
    case Blame::kUntraced:
      if (IsStill(index, blame, cause.blame)) return Proof::kStoodStill;
      if (IsInSpan(index, blame, cause.blame)) return Proof::kInSpan;
      if (IsPlaced(index, blame, cause.blame)) return cause.stacks.is_known() ? Proof::kBusy : Proof::kPlaced;
      if (IsAsleepAt(index.stacks.Of(blame.segments, cause.blame))) return Proof::kPlaced;
      return IsUnseen(longest) ? Proof::kUnseen : Proof::kNone;
    default:
      return Proof::kNone;
  }
}

}  // namespace pitot::verdict
