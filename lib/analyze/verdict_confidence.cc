// SPDX-License-Identifier: Apache-2.0
#include "analyze/verdict_confidence.h"

#include "analyze/depths.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

using model::kNone;

namespace {

// Of GPUs, and what is left of a wait for one where it is not known when that was done.
constexpr uint32_t kByGpuTimes = kOfGpus | BlameBit(Blame::kHostOncpuFramework) | BlameBit(Blame::kHostBlockedUnknown);
// Confidence where requests of other sizes, routes or depths had to do, where few are known, where events were lost or
// GPUs' times cannot be compared with the host's.
constexpr double kOtherSizes = 0.6, kOtherRoutes = 0.5, kFew = 0.8, kLossy = 0.5, kSkewed = 0.5, kOtherDepths = 0.8;
// And of what is inferred: that work of which nobody says for whom it was is not the request's own, that work of a GPU
// took as long as it does where that is not known (analyzers.md section 2.3 has .7 for what is inferred), that code and
// launches were on a CPU where no counter of their thread says so, that what is first in the trace was new (a25 has the
// same), that few faults took long.
constexpr double kInferred = 0.7, kUncounted = 0.8, kFirstSeen = 0.6, kSlowFaults = 0.6;
// And of sleep that no wait accounts for; and, the more the smaller its share of the excess is, of what may only have
// come with another part. These two and kOtherSizes were fitted on the scoreboard's `tune` (docs/why.md).
constexpr double kNoWaitSays = 0.9, kCameAlong = 0.1;
constexpr uint32_t kBehindOthers = BlameBit(Blame::kAdmissionQueue) | BlameBit(Blame::kQueueWaitOthers) |
                                   BlameBit(Blame::kExecutorBusy) | BlameBit(Blame::kGpuQueueWaitOthers);

// What nothing explains makes every cause less sure, and itself; but that a thread slept is known.
double UnknownBeside(const Unexplained& unexplained, const Cause& cause) {
  return cause.blame == Blame::kHostBlockedUnknown ? unexplained.Share() - unexplained.ShareOf(cause.excess_ns)
                                                   : unexplained.Share();
}

double QualityFactor(const Index& index, const RequestBlame& request, const VerdictOptions& options,
                     const Verdict& verdict, Blame blame) {
  double factor = request.is_reliable ? 1 : kLossy;
  if (!index.gpu.are_times_known() && (kByGpuTimes & BlameBit(blame)) != 0) factor *= kSkewed;
  if (verdict.alpha > options.alpha) factor *= kFew;
  if (verdict.level == Baseline::Level::kRoute) factor *= kOtherSizes;
  if (verdict.level == Baseline::Level::kProcess) factor *= kOtherRoutes;
  if (verdict.is_coarse) factor *= kOtherDepths;
  return factor;
}

// Of a part whose segments may prove that they are what they are called: what is left of confidence where they do not.
double UnlessProved(Blame blame) {
  if ((kOnCpu & BlameBit(blame)) != 0 || blame == Blame::kLaunchApi) return kUncounted;
  if ((kBehindOthers & BlameBit(blame)) != 0 || blame == Blame::kGpuExecExpected) return kInferred;
  if (blame == Blame::kLazyLoadJit) return kFirstSeen;
  return blame == Blame::kHostPagefaultIo ? kSlowFaults : 1;
}

bool IsProved(const Index& index, const BlameSegment& segment) {
  const bool is_for_somebody = segment.by.request != kNone || segment.by.batch != kNone;
  const model::Interval known = index.host.KnownOf(segment.thread);
  const bool is_counted = known.begin_ns <= segment.begin_ns && segment.end_ns <= known.end_ns;
  if ((kOnCpu & BlameBit(segment.blame)) != 0) return is_counted;
  switch (segment.blame) {
    case Blame::kLaunchApi:  // or another thread was in the driver meanwhile
      return is_counted || segment.by.IsKnown();
    case Blame::kGpuExecExpected:
      return segment.gpu == kNone || index.gpu.UsualNs(segment.gpu) >= 0;
    case Blame::kLazyLoadJit:
      return index.first_uses.IsLoadProved(segment);
    case Blame::kHostPagefaultIo:  // without a counter it is a wait that the program calls input or output
      return segment.counter == kNone || index.host.AreFaultsProved(segment.thread, segment.begin_ns, segment.end_ns);
    default:
      return is_for_somebody;
  }
}

// How much of the time of a part is proved to be what it is called.
double ProofFactor(const Index& index, const RequestBlame& request, Blame blame) {
  if (blame == Blame::kHostBlockedUnknown) return kNoWaitSays;
  const double unless_proved = UnlessProved(blame);
  if (unless_proved == 1) return 1;
  int64_t all_ns = 0, proved_ns = 0;
  for (const BlameSegment& segment : request.segments) {
    if (segment.blame != blame) continue;
    const int64_t ns = segment.end_ns - segment.begin_ns;
    all_ns += ns;
    if (IsProved(index, segment)) proved_ns += ns;
  }
  return 2 * proved_ns >= all_ns ? 1 : unless_proved;
}

}  // namespace

double TrueUnlessByChance(const Index& index, const RequestBlame& blame, const VerdictOptions& options,
                          const Verdict& verdict, const Unexplained& unexplained, const Cause& cause) noexcept {
  const double others = 1 - std::min(cause.share, 1.0);  // where other parts were shorter it is more than all
  return (1 - UnknownBeside(unexplained, cause)) * QualityFactor(index, blame, options, verdict, cause.blame) *
         ProofFactor(index, blame, cause.blame) * (1 - kCameAlong * others * others);
}

}  // namespace analyze
PITOT_NAMESPACE_END
