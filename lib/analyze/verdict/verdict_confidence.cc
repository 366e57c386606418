// SPDX-License-Identifier: Apache-2.0
#include "analyze/verdict/verdict_confidence.h"

#include <algorithm>
#include <map>

#include "analyze/facts/statistics.h"
#include "analyze/verdict/depths.h"
#include "analyze/verdict/proof.h"
#include "analyze/verdict/verdict_words.h"

namespace pitot::verdict {

using model::kNone;

namespace {

// Parts of GPUs, and the remains of a wait for a GPU that ended at an unknown time.
constexpr uint32_t kByGpuTimes = kOfGpus | BlameBit(Blame::kHostOncpuFramework) | BlameBit(Blame::kHostBlockedUnknown);
// Confidence if requests of other sizes, routes or depths had to do, or few are known. Also if events were lost, or
// GPUs' times cannot be compared with the host's.
constexpr double kOtherSizes = 0.6, kOtherRoutes = 0.5, kFew = 0.8, kVeryFew = 0.5, kLossy = 0.5, kSkewed = 0.5,
                 kOtherDepths = 0.8;
// And for guesses (docs/reference/why.md#confidence). Work of an unknown owner is not the request's own. GPU work of
// unknown usual length took as long as usual. Code and launches were on a CPU although no counter of their thread says
// so. A first use in the trace was new (a25 has the same factor). Few faults took long.
constexpr double kInferred = 0.7, kUncounted = 0.8, kFirstSeen = 0.6, kSlowFaults = 0.6;
// And for sleep without a wait; and for parts that may only have come with another, the more the smaller their share of
// the excess is. These two and kOtherSizes were fitted on the scoreboard's `tune` (docs/lab/verdicts.md).
constexpr double kNoWaitSays = 0.9, kCameAlong = 0.1;
// And while pitot::ProfileKernels ran: it starts and stops counters around launches, in their thread.
constexpr double kProfiled = 0.4;
constexpr uint32_t kSlowedByProfiles = BlameBit(Blame::kHostOncpuFramework) | BlameBit(Blame::kHostBlockedUnknown) |
                                       BlameBit(Blame::kLaunchApi) | BlameBit(Blame::kLaunchLatency) |
                                       BlameBit(Blame::kLaunchQueueFull) | BlameBit(Blame::kLazyLoadJit);
constexpr uint32_t kBehindOthers = BlameBit(Blame::kAdmissionQueue) | BlameBit(Blame::kQueueWaitOthers) |
                                   BlameBit(Blame::kExecutorBusy) | BlameBit(Blame::kGpuQueueWaitOthers);

// The unexplained share makes every cause less sure, and itself; but the sleep of a thread is known. `slept_ns` is the
// part of it in the unexplained time: none if a wait names it.
double UnknownBeside(const Unexplained& unexplained, const Cause& cause) {
  return cause.blame == Blame::kHostBlockedUnknown ? unexplained.Share() - unexplained.ShareOf(unexplained.slept_ns)
                                                   : unexplained.Share();
}

// A product, and its least factor in words.
class FactorProduct {
 public:
  void Take(double number, const char* why) {
    const double factor = facts::NearestProbability(number);
    value_ *= factor;
    if (factor >= least_) return;
    least_ = factor;
    why_ = why;
  }
  double value() const { return value_; }
  const char* why() const { return why_; }

 private:
  static constexpr double kSpoken = 0.95;  // a larger factor is not mentioned
  double value_ = 1, least_ = kSpoken;
  const char* why_ = "";
};

void TakeQuality(const blame::Index& index, const RequestBlame& request, const VerdictOptions& options,
                 const Verdict& verdict, Blame blame, FactorProduct* product) {
  if (!request.is_reliable) product->Take(kLossy, "events were lost during it");
  if (!index.gpu.are_times_known() && (kByGpuTimes & BlameBit(blame)) != 0)
    product->Take(kSkewed, "the GPU's timestamps cannot be right");
  if (verdict.baseline_size < options.least)
    product->Take(kVeryFew, "very few normal requests");
  else if (verdict.alpha > options.alpha)
    product->Take(kFew, "few normal requests");
  if (verdict.level == Baseline::Level::kRoute) product->Take(kOtherSizes, "compared with other sizes");
  if (verdict.level == Baseline::Level::kProcess) product->Take(kOtherRoutes, "compared with other routes");
  if (verdict.is_coarse) product->Take(kOtherDepths, "recorded at different depths");
  if ((kSlowedByProfiles & BlameBit(blame)) != 0 && FindProfiles(index.trace, request).runs != 0)
    product->Take(kProfiled, "kernels were being profiled, which slows launches");
}

struct Doubt {
  double factor = 1;
  const char* why = "";
};
// The doubt about a part whose segments may prove their name: the confidence left if they do not.
Doubt UnlessProved(Blame blame) {
  if ((kOnCpu & BlameBit(blame)) != 0 || blame == Blame::kLaunchApi)
    return {kUncounted, "it may have slept: no counter shows its thread on a CPU"};
  if ((kBehindOthers & BlameBit(blame)) != 0) return {kInferred, "the owner of that work is not known"};
  if (blame == Blame::kHostGil) return {kUncounted, "it may have run: no counter shows its thread off a CPU"};
  if (blame == Blame::kGpuExecExpected)
    return {kInferred, "the usual time of such work, or whose it was, is not known"};
  if (blame == Blame::kGpuContention) return {kInferred, "layers include gaps: they may not have run at once"};
  if (blame == Blame::kLaunchQueueFull) return {kInferred, "its launches were counted, not recorded"};
  if (blame == Blame::kLazyLoadJit) return {kFirstSeen, "the first in this trace need not be new"};
  if (blame == Blame::kHostPagefaultIo) return {kSlowFaults, "so few page faults may take no time"};
  return {};
}

// Whether most of a wait is for large members of its batches, and the usual time of so much work is not known.
bool IsMixedTimeUnknown(const blame::Index& index, const RequestBlame& request) {
  int64_t all_ns = 0, unknown_ns = 0;
  for (const BlameSegment& segment : request.segments) {
    if (segment.blame != Blame::kExecutorBusy) continue;
    const int64_t ns = segment.end_ns - segment.begin_ns;
    all_ns += ns;
    const blame::MixedWork::Part* const part = index.PartBehind(segment);
    if (part != nullptr && !part->is_time_known) unknown_ns += ns;
  }
  return unknown_ns > 0 && 2 * unknown_ns >= all_ns;
}

bool IsProved(const blame::Index& index, const BlameSegment& segment) {
  const bool is_for_somebody = segment.by.request != kNone || segment.by.batch != kNone;
  blame::WaitArgs wait;
  const bool is_counted = index.host.IsKnown(segment.thread, segment.begin_ns, segment.end_ns);
  if ((kOnCpu & BlameBit(segment.blame)) != 0) return is_counted;
  switch (segment.blame) {
    case Blame::kHostGil:  // or the program recorded the lock. Sleep while somebody unknown held it proves little.
      return (is_counted && segment.by.IsKnown()) || blame::ReadWait(index.trace, segment.event, &wait);
    case Blame::kLaunchApi:  // or another thread was in the driver meanwhile
      return is_counted || segment.by.IsKnown();
    case Blame::kGpuExecExpected:
      return segment.gpu != kNone && index.gpu.UsualNs(segment.gpu) >= 0;
    case Blame::kGpuContention:
      return segment.gpu == kNone || !index.gpu.IsSpan(segment.gpu);
    case Blame::kLaunchQueueFull:
      return segment.batch == kNone || index.trace.batches[segment.batch].launches == 0;
    case Blame::kLazyLoadJit:
      return index.first_uses.IsLoadProved(segment) && !MayAwaitDriver(index, segment);
    case Blame::kHostPagefaultIo:  // without a counter it is a wait marked by the program as input or output
      return segment.counter == kNone || index.host.AreFaultsProved(segment.thread, segment.begin_ns, segment.end_ns);
    default:
      return is_for_somebody || index.interpreter.IsStep(segment.by.event);
  }
}

// The doubt about a part: none if at least half of its time is proved to be what it is called.
Doubt DoubtOf(const blame::Index& index, const RequestBlame& request, Blame blame) {
  if (IsInSpan(index, request, blame)) return {kInferred, "only a span shows where it was"};
  if (IsPlaced(index, request, blame))
    return blame == Blame::kUntraced ? Doubt{kInferred, "only stacks show what it did"}
                                     : Doubt{kNoWaitSays, "stacks show where it slept, and not why"};
  if (IsStill(index, request, blame)) return {};
  if (blame == Blame::kHostBlockedUnknown)
    return IsNamedSleep(index.trace, request) ? Doubt{} : Doubt{kNoWaitSays, "no recorded wait explains the sleep"};
  if (blame == Blame::kExecutorBusy && IsMixedTimeUnknown(index, request))
    return {kInferred, "the usual time of so much work is not known"};
  const Doubt unless_proved = UnlessProved(blame);
  if (unless_proved.factor == 1) return {};
  int64_t all_ns = 0, proved_ns = 0, in_driver_ns = 0;
  for (const BlameSegment& segment : request.segments) {
    if (segment.blame != blame) continue;
    const int64_t ns = segment.end_ns - segment.begin_ns;
    all_ns += ns;
    if (IsProved(index, segment)) proved_ns += ns;
    if (MayAwaitDriver(index, segment)) in_driver_ns += ns;
  }
  if (2 * proved_ns >= all_ns) return {};
  if ((kOnCpu & BlameBit(blame)) != 0 && HasRun(StacksOfPart(index, request, blame)))
    return {kUncounted, "it may have waited for a CPU: no counter shows its thread on one"};
  return 2 * in_driver_ns >= all_ns ? Doubt{kFirstSeen, "it may have waited for the driver"} : unless_proved;
}

void TakeOtherWaits(const OtherWaits& waits, const Cause& cause, FactorProduct* product) {
  const auto take = [&](int64_t ns, const char* why) {
    if (ns <= 0 || cause.excess_ns <= 0) return;
    product->Take(1 - static_cast<double>(std::min(ns, cause.excess_ns)) / static_cast<double>(cause.excess_ns), why);
  };
  take(waits.cpu_ns, "its thread may have waited for a CPU in it");
  take(waits.interpreter_ns, "another thread may have had the interpreter in it");
  take(waits.wake_up_ns, "its thread may have woken up late");
}

}  // namespace

OtherWaits FindOtherWaits(const blame::Index& index, const RequestBlame& request, Blame part, int64_t wake_up_ns) {
  OtherWaits all;
  if (part != Blame::kHostPagefaultIo && part != Blame::kHostBlockedUnknown) return all;
  std::map<uint32_t, int64_t> delays;  // by event
  int64_t least_ns = 0;                // of a thread that runs the interpreter
  blame::WaitArgs wait;
  for (const BlameSegment& segment : request.segments) {
    if (segment.blame != part || segment.event == kNone || !blame::ReadWait(index.trace, segment.event, &wait))
      continue;
    delays[segment.event] += index.host.MostDelayNs(segment.thread, segment.begin_ns, segment.end_ns);
    if (!index.interpreter.Runs(segment.thread)) continue;
    least_ns = index.interpreter.UnseenNs();
    all.interpreter_ns += index.interpreter.HeldNs(segment.thread, segment.begin_ns, segment.end_ns);
    all.interpreter_ns += index.interpreter.HeldByUnknownNs(segment.begin_ns, segment.end_ns);
  }
  for (const BlameSegment& segment : request.segments) {
    const auto found = delays.find(segment.event);
    if (segment.blame == Blame::kHostRunqueue && found != delays.end())
      found->second -= segment.end_ns - segment.begin_ns;
  }
  if (!delays.empty()) all.wake_up_ns = wake_up_ns;
  all.interpreter_ns = std::max(all.interpreter_ns, least_ns);
  for (const auto& [event, delay_ns] : delays) all.cpu_ns += std::max<int64_t>(delay_ns, 0);
  return all;
}

void FindConfidence(const blame::Index& index, const RequestBlame& blame, const VerdictOptions& options,
                    const Verdict& verdict, const Unexplained& unexplained, double by_chance, Cause* cause) noexcept {
  const double others = 1 - std::min(cause->share, 1.0);  // if other parts were shorter, the share is more than all
  const Doubt doubt = DoubtOf(index, blame, cause->blame);
  FactorProduct product;
  product.Take(1 - by_chance, "it may be chance");
  const double unknown = UnknownBeside(unexplained, *cause);
  product.Take(1 - unknown,
               unknown > 0.5 ? "nothing explains most of the excess" : "nothing explains some of the excess");
  TakeQuality(index, blame, options, verdict, cause->blame, &product);
  product.Take(doubt.factor, doubt.why);
  TakeOtherWaits(FindOtherWaits(index, blame, cause->blame, unexplained.wake_up_ns), *cause, &product);
  product.Take(1 - kCameAlong * others * others, "so small a part may be a side effect of another");
  cause->confidence = product.value();
  cause->unsure = product.why();
}

}  // namespace pitot::verdict
