// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/verdict.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <numeric>

#include "analyze/blame/index_data.h"
#include "analyze/blame/token_gap.h"
#include "analyze/facts/clock_state.h"
#include "analyze/facts/quality.h"
#include "analyze/verdict/by_size.h"
#include "analyze/verdict/cause_evidence.h"
#include "analyze/verdict/contradictions.h"
#include "analyze/verdict/contrast.h"
#include "analyze/verdict/counterfactual.h"
#include "analyze/verdict/depths.h"
#include "analyze/verdict/proof.h"
#include "analyze/verdict/tree.h"
#include "analyze/verdict/verdict_confidence.h"
#include "analyze/verdict/verdict_others.h"
#include "analyze/verdict/verdict_words.h"
#include "base/columns.h"
#include "base/quantile.h"

namespace pitot::verdict {

using model::kNone;

namespace {

using blame::MixedWork;
using facts::ClockState;

// Parts that say how long, not why.
constexpr uint32_t kUnknown =
    BlameBit(Blame::kUntraced) | BlameBit(Blame::kHostBlockedUnknown) | BlameBit(Blame::kGpuExcessUnknown);
// The parts of work on a GPU, of a step of a batch or of a token.
constexpr uint32_t kModelWork = BlameBit(Blame::kHostOncpuFramework) | BlameBit(Blame::kLaunchApi) |
                                BlameBit(Blame::kLaunchLatency) | BlameBit(Blame::kH2d) | BlameBit(Blame::kD2h) |
                                BlameBit(Blame::kD2dMemset) | BlameBit(Blame::kGpuExecExpected) |
                                BlameBit(Blame::kDispatchGap) | BlameBit(Blame::kBatchWindow);
// Parts made of GPU operations alone: more operations take more of it.
constexpr uint32_t kOfOperations = kModelWork & ~(BlameBit(Blame::kHostOncpuFramework) | BlameBit(Blame::kBatchWindow));
// The request's own work of the model, on threads and GPUs: the walk is on either, whichever was last.
constexpr uint32_t kOwnWork = BlameBit(Blame::kHostOncpuFramework) | BlameBit(Blame::kLaunchApi) |
                              BlameBit(Blame::kLaunchLatency) | BlameBit(Blame::kGpuExecExpected) |
                              BlameBit(Blame::kDispatchGap) | BlameBit(Blame::kSyncReturn);
constexpr double kSizeQuantile = 0.99;
// The most that one more wait for a GPU costs: 7 to 16 us with a spinning thread, up to 64 us with a blocking one
// (docs/lab/gpu_default.md#one-more-wait).
constexpr double kMostOfWaitNs = 65'000;
constexpr size_t kDrags = 3;
constexpr int64_t kLeastListed = 50'000;  // less is 0.0 ms

template <class Parts> int64_t Of(const Parts& parts, uint32_t mask) {
  int64_t ns = 0;
  for (uint32_t k = 0; k < kBlames; ++k) ns += (mask >> k & 1) != 0 ? parts[k] : 0;
  return ns;
}

const char* WhyNot(MixedWork::Doubt doubt) {
  switch (doubt) {
    case MixedWork::Doubt::kNoSize:
      return "a prompt was read in the same iteration, and its length is not known";
    case MixedWork::Doubt::kFewPrompts:
      return "a prompt was read in the same iteration, and too few others are known";
    case MixedWork::Doubt::kNoWork:
      return "the work of a member of the same batch is not known";
    case MixedWork::Doubt::kFewLike:
      return "a member of the same batch had much more work, and too few like batches are known";
    case MixedWork::Doubt::kNone:
      break;
  }
  return "";
}

class RequestComparison {
 public:
  RequestComparison(const blame::Index& index, const RequestBlame& blame, const VerdictOptions& options,
                    Verdict* verdict)
      : index_(index), blame_(blame), options_(options), verdict_(verdict) {}

  // Fills the verdict; its baseline's facts are there already.
  void Compare(const std::vector<BaselineRow>& rows, const WorkDone& work) {
    Verdict& v = *verdict_;
    std::vector<BlameVector> vectors;
    for (const auto& row : rows) vectors.push_back(row.blame);
    const Normal normal(vectors, options_.execution);
    v.kind = VerdictKind::kUndetermined;
    v.latency_ns = blame_.blame.Total();
    v.baseline_size = static_cast<uint32_t>(rows.size());
    if (v.level == Baseline::Level::kNone || normal.is_empty()) {
      v.is_coarse = false;
      if (v.why_not.empty())
        v.why_not = std::string("too few ") + (blame_.token == kNone ? "requests" : "tokens") + " like it are known (" +
                    std::to_string(std::min(options_.least_few, options_.least)) + " needed)";
      ListLargest(nullptr);
      return FindLimits(Counterfactual(blame_));
    }
    const Contrast at = normal.Test(blame_.blame);
    unexplained_.wake_up_ns = normal.UsualMostNs(Blame::kHandoff);
    v.typical_ns = normal.latency_ns();
    std::copy(normal.mu_ns().begin(), normal.mu_ns().end(), v.normal.ns);
    v.percentile = normal.Percentile(v.latency_ns);
    v.least_p = normal.least_p();
    if (rows.size() < options_.least) alpha_few_ = std::max(alpha_few_, v.least_p);
    const bool is_many = rows.size() >= options_.least_many && v.least_p <= options_.alpha;
    v.alpha = is_many ? options_.alpha : alpha_few_;
    v.rest_ns = v.latency_ns - v.typical_ns;
    if (IsContradictory()) {
      v.why_not =
          "timestamps of the trace contradict each other: " + base::Duration(blame_.clamped_ns) + " had to be adjusted";
      ListLargest(&at);
      return FindLimits(Counterfactual(blame_));
    }
    if (v.rest_ns <= 0 || v.percentile <= options_.normal_percentile) {
      v.kind = VerdictKind::kNotUnusual;
      return;
    }
    v.kind = Explain(rows, work, normal, at);
    if (v.causes.empty()) {
      ListLargest(&at);
      const bool is_as_large = v.kind == VerdictKind::kMoreWork && v.more_of != "size";  // more steps, tokens, launches
      v.advice = is_as_large ? Advice{"", ""} : AdviceFor(v.kind);
    }
    MarkContradictions(blame_, &v.causes);
    const Counterfactual play(blame_);
    FindLimits(play);
    FindSavings(play);
  }

 private:
  // Explains a slow request: finds its causes, takes them from the rest, and returns the kind of verdict.
  VerdictKind Explain(const std::vector<BaselineRow>& rows, const WorkDone& work, const Normal& normal,
                      const Contrast& at) {
    if (IsMoreWork(rows, work, at)) return VerdictKind::kMoreWork;
    const bool is_in_more_pieces = !verdict_->more_of.empty() && more_work_ == 0;
    if (is_in_more_pieces && verdict_->more_of == "launches") TestLaunches(rows, work.launches, normal);
    FindCauses(at);
    if (is_in_more_pieces && verdict_->causes.empty()) return VerdictKind::kMoreWork;  // and no part stands out
    const bool is_uniform = IsUniform(normal, at);
    if (is_uniform) TakeOutCommon(at);
    for (const Cause& cause : verdict_->causes) verdict_->rest_ns -= cause.excess_ns;
    if (is_uniform) return VerdictKind::kUniform;
    return verdict_->causes.empty() ? WithoutCauses() : OfCauses();
  }

  bool IsContradictory() const {
    const double latency = static_cast<double>(std::max<int64_t>(verdict_->latency_ns, 1));
    return static_cast<double>(blame_.clamped_ns) > index_.options.most_clamped * latency;
  }
  // Whether everything was slower. If most of the excess is unexplained, the common factor of the rest proves nothing.
  // Nor is a little code next to long waits everything.
  bool IsUniform(const Normal& normal, const Contrast& at) const {
    const auto excess = static_cast<double>(verdict_->latency_ns - verdict_->typical_ns);
    const auto stretched = static_cast<double>(Of(normal.mu_ns(), options_.execution));
    return more_work_ == 0 && stretched >= options_.least_stretched * static_cast<double>(verdict_->typical_ns) &&
           at.common_factor > std::max(options_.least_common_factor, normal.usual_common_factor()) &&
           at.common_factor <= options_.most_common_factor &&
           static_cast<double>(Of(at.common_ns, ~uint32_t{0})) >= options_.least_common_share * excess &&
           static_cast<double>(unexplained_.unknown_ns) < options_.most_unknown * excess;
  }
  void TakeOutCommon(const Contrast& at) {
    verdict_->common_factor = at.common_factor;
    verdict_->common_ns = Of(at.common_ns, ~uint32_t{0});
    verdict_->clocks = ClockState(index_.trace, {blame_.begin_ns, blame_.end_ns});
    verdict_->rest_ns -= verdict_->common_ns;
  }
  VerdictKind WithoutCauses() {
    if (verdict_->percentile <= options_.usual_percentile) return VerdictKind::kNotUnusual;
    if (IsUnexplained()) return VerdictKind::kUndetermined;
    return more_work_ != 0 ? VerdictKind::kMoreWork : VerdictKind::kDiffuse;
  }
  VerdictKind OfCauses() {
    const auto is_unknown = [&](const Cause& cause) { return (unknown_ & BlameBit(cause.blame)) != 0; };
    const Cause& first = verdict_->causes[0];
    const bool is_known = !std::all_of(verdict_->causes.begin(), verdict_->causes.end(), is_unknown) &&
                          !(first.blame == Blame::kHostOncpuFramework && is_unknown(first));
    return !is_known && IsUnexplained() ? VerdictKind::kUndetermined : VerdictKind::kCauses;
  }
  bool IsUnexplained() {
    if (verdict_->least_p > verdict_->alpha) {
      verdict_->why_not = "too few of the similar requests are typical: no part could stand out";
      return true;
    }
    if (unexplained_.Share() < options_.most_unknown) return false;
    if (mixed_doubt_ != MixedWork::Doubt::kNone) {
      verdict_->why_not = WhyNot(mixed_doubt_);
      return true;
    }
    if (2 * unexplained_.doubted_ns > unexplained_.unknown_ns) {
      verdict_->why_not =
          "a recorded wait took longer than usual, and its thread may have waited for a CPU, for the "
          "interpreter or to wake up in it";
      return true;
    }
    verdict_->why_not = 2 * unexplained_.slept_ns > unexplained_.unknown_ns && IsDeviceSleep(index_.trace, blame_)
                            ? "a thread serving this request waited for a GPU, and nothing recorded shows what it did"
                        : 2 * unexplained_.slept_ns > unexplained_.unknown_ns
                            ? "a thread serving this request was blocked, and no recorded wait explains why"
                        : 2 * unexplained_.unseen_ns > unexplained_.unknown_ns
                            ? MayAwaitGpu(index_, blame_) == GpuDoubt::kBusy
                                  ? "code of its batch, or calls that ask a GPU again and again: it worked meanwhile"
                                  : "code of its batch, or a wait for a GPU: nothing recorded shows what the GPU did"
                            : "nothing recorded explains most of the excess";
    return true;
  }

  // ---- More of the same work: the cost of so many more units at the usual time of one. If it explains the excess of
  // its parts, but little of the whole excess, these parts alone are more work.
  struct More {
    const char* of = "";
    double factor = 1;        // of the usual units
    double explained_ns = 0;  // of the excess of its parts, no more: work that took no longer explains nothing
    double excess_ns = 0;     // of its parts
    uint32_t where = 0;       // its parts
  };
  More MoreOf(const char* of, double units, double usually, uint32_t where, const Contrast& at,
              double most_each_ns = std::numeric_limits<double>::infinity()) const {
    if (usually <= 0 || units < kLeastMore * usually) return {};
    const auto usual_ns = static_cast<double>(Of(verdict_->normal.ns, where));
    const auto excess_ns = static_cast<double>(Of(at.excess_ns, where));
    const double by_count = std::min((units / usually - 1) * usual_ns, (units - usually) * most_each_ns);
    return {of, units / usually, std::min(by_count, excess_ns), excess_ns, where};
  }
  bool IsMoreWork(const std::vector<BaselineRow>& rows, const WorkDone& work, const Contrast& at) {
    const auto excess = static_cast<double>(verdict_->latency_ns - verdict_->typical_ns);
    const auto mean = [&](const auto& of) {
      double sum = 0;
      for (const auto& row : rows) sum += static_cast<double>(of(row.work));
      return sum / static_cast<double>(rows.size());
    };
    std::vector<double> sizes;
    for (const auto& row : rows) sizes.push_back(row.work.size);
    // Among requests of its own size, more than nearly all; among those of any, more than most.
    const double quantile = verdict_->level == analyze::Baseline::Level::kCell ? kSizeQuantile : 0.5;
    const double usual_size = base::Median(sizes);
    const double large = base::Quantile(std::move(sizes), quantile);
    More most;
    const auto consider = [&](const More& more) {
      if (more.explained_ns > most.explained_ns) most = more;
    };
    // Compared with other sizes, its own is no reason if its like take no longer.
    const bool may_be_size =
        verdict_->level == analyze::Baseline::Level::kCell || MayBeSize(index_, blame_, options_.normal_percentile);
    // The mean of sizes would be that of the few large ones.
    if (work.size > large && may_be_size) consider(MoreOf("size", work.size, usual_size, options_.execution, at));
    consider(MoreOf("steps", work.steps, mean([](auto& w) { return w.steps; }), kModelWork, at));
    consider(MoreOf("tokens", work.tokens, mean([](auto& w) { return w.tokens; }), kModelWork, at));
    const double least = options_.more_work_share * excess;
    if (most.explained_ns >= least) {
      Name(most);
      verdict_->more_ns = std::llround(most.explained_ns);
      return true;
    }
    if (most.explained_ns > 0 && most.explained_ns >= options_.more_work_share * most.excess_ns) {
      Name(most);
      more_work_ = GrownWithWork(most.where, at, options_.least_share * excess);
      verdict_->more_ns = Of(at.excess_ns, more_work_);
      return false;
    }
    return AreMorePieces(rows, work, at, least);
  }

  // A request asks for work; the number of pieces is the server's own affair, and a cause. Only compared with other
  // sizes may more launches mean a larger request. After each of many waits the GPU runs dry, and the thread begins to
  // launch again; where both explain enough, the one that grew more is named.
  bool AreMorePieces(const std::vector<BaselineRow>& rows, const WorkDone& work, const Contrast& at, double least_ns) {
    double launches = 0, waits = 0;
    uint32_t with_waits = 0;
    for (const BaselineRow& row : rows) {
      launches += row.work.launches;
      waits += row.work.waits.value_or(0);
      with_waits += row.work.waits.has_value() ? 1 : 0;
    }
    const auto is_enough = [&](const More& more) { return more.explained_ns > 0 && more.explained_ns >= least_ns; };
    More by_launches, by_waits;
    if (!verdict_->is_coarse)
      by_launches = MoreOf("launches", work.launches, launches / static_cast<double>(rows.size()), kModelWork, at);
    if (work.waits.has_value() && with_waits >= options_.least)
      by_waits = MoreOf(kWaitsForGpu, *work.waits, waits / with_waits, kModelWork, at, kMostOfWaitNs);
    const bool are_waits = is_enough(by_waits) && (!is_enough(by_launches) || by_waits.factor > by_launches.factor);
    if (are_waits || is_enough(by_launches)) Name(are_waits ? by_waits : by_launches);
    return !are_waits && is_enough(by_launches) && verdict_->level != analyze::Baseline::Level::kCell;
  }
  void Name(const More& more) {
    verdict_->more_of = more.of;
    verdict_->more_factor = more.factor;
  }

  // Those of the parts that more work explains as well as all of them together, and those too small to matter. A part
  // hidden in the sum by others' savings is not more work.
  uint32_t GrownWithWork(uint32_t where, const Contrast& at, double least_ns) const {
    uint32_t grown = 0;
    for (uint32_t k = 0; k < kBlames; ++k) {
      const auto more_ns = static_cast<double>(at.excess_ns[k]);
      const double by_count = (verdict_->more_factor - 1) * static_cast<double>(verdict_->normal.ns[k]);
      const bool is_explained = more_ns < least_ns || by_count >= options_.more_work_share * more_ns;
      if ((where >> k & 1) != 0 && is_explained) grown |= uint32_t{1} << k;
    }
    return grown;
  }

  // Tests the number of launches: how often does a normal request, among those that calibrate latencies, launch so
  // much? It is a second test, of parts made of launches, and has half of alpha. The parts' times have the other half,
  // or all of it where launches are not normal, because then no error of theirs is left (Wiens' fallback procedure,
  // 2003).
  void TestLaunches(const std::vector<BaselineRow>& rows, uint32_t launches, const Normal& normal) {
    // Half of alpha may be less than any p that so few requests can give; then there is one test.
    if (2 * verdict_->least_p > verdict_->alpha) verdict_->alpha = alpha_few_;
    if (2 * verdict_->least_p > verdict_->alpha) return;
    uint32_t all = 0, as_many = 0;
    for (const BaselineRow& row : rows) {
      if (normal.Percentile(row.blame.Total()) > options_.normal_percentile) continue;
      ++all;
      as_many += row.work.launches >= launches ? 1 : 0;
    }
    p_of_launches_ = (1.0 + as_many) / (1.0 + all);
    are_launches_normal_ = 2 * p_of_launches_ > verdict_->alpha;
    if (are_launches_normal_) verdict_->alpha /= 2;
    p_factor_ = are_launches_normal_ ? 2 : 1;
  }
  double POfLaunches(uint32_t k, const Contrast& at) const {
    return (kOfOperations >> k & 1) != 0 && at.residual_ns[k] > 0 ? p_of_launches_ : 1;
  }
  bool IsNormal(uint32_t k, const Contrast& at) const {
    return at.p[k] > verdict_->alpha && (are_launches_normal_ || POfLaunches(k, at) == 1);
  }

  // Whether it is enough of the excess to be a cause.
  bool IsMuch(int64_t ns) const {
    const auto excess_ns = static_cast<double>(verdict_->latency_ns - verdict_->typical_ns);
    return ns >= options_.least_excess_ns && static_cast<double>(ns) >= options_.least_share * excess_ns;
  }
  // Whether a part is longer only because another of the same work is shorter. After others' work has held up a GPU,
  // the walk of an otherwise launch-bound request goes over its kernels.
  bool IsMoved(uint32_t k, const Contrast& at) const {
    return (kOwnWork >> k & 1) != 0 && !IsMuch(Of(at.residual_ns, kOwnWork));
  }

  // Whether its threads may have waited for something else in more than half of the excess of recorded waits, which
  // is much.
  bool MayBeOther(uint32_t k, const Contrast& at) const {
    if (!IsMuch(at.residual_ns[k])) return false;
    const int64_t other_ns = FindOtherWaits(index_, blame_, static_cast<Blame>(k), unexplained_.wake_up_ns).all_ns();
    return 2 * other_ns > at.residual_ns[k];
  }

  // ---- Causes
  void FindCauses(const Contrast& at) {
    if (IsNamedSleep(index_.trace, blame_)) unknown_ &= ~BlameBit(Blame::kHostBlockedUnknown);
    for (const Blame part : {Blame::kHostBlockedUnknown, Blame::kUntraced}) {
      if (IsPlaced(index_, blame_, part) || IsStill(index_, blame_, part)) unknown_ &= ~BlameBit(part);
    }
    const bool is_still = IsStill(index_, blame_, Blame::kHostBlockedUnknown);
    mixed_doubt_ = is_still ? MixedWork::Doubt::kNone : MayBeMixed(index_, blame_);
    const bool may_be_mixed = mixed_doubt_ != MixedWork::Doubt::kNone;
    if (may_be_mixed) unknown_ |= BlameBit(Blame::kHostBlockedUnknown);
    if (may_be_mixed || MayAwaitGpu(index_, blame_) != GpuDoubt::kNone)
      unknown_ |= BlameBit(Blame::kHostOncpuFramework);
    for (const Blame part : {Blame::kHostPagefaultIo, Blame::kHostBlockedUnknown}) {
      if (MayBeOther(static_cast<uint32_t>(part), at)) may_be_other_ |= BlameBit(part);
    }
    unknown_ |= may_be_other_;
    for (uint32_t k = 0; k < kBlames; ++k) {
      const int64_t ns = std::max<int64_t>(at.residual_ns[k], 0);
      unexplained_.positive_ns += ns;
      if ((unknown_ >> k & 1) == 0) continue;
      unexplained_.unknown_ns += ns;
      if ((may_be_other_ >> k & 1) != 0) unexplained_.doubted_ns += ns;
      if (static_cast<Blame>(k) == Blame::kHostBlockedUnknown) unexplained_.slept_ns = ns;
      if (static_cast<Blame>(k) == Blame::kHostOncpuFramework) unexplained_.unseen_ns = ns;
    }
    for (uint32_t k = 0; k < kBlames; ++k) {
      const bool is_no_cause = ((more_work_ | may_be_other_) >> k & 1) != 0;
      if (is_no_cause || IsNormal(k, at) || !IsMuch(at.lost_ns[k]) || IsMoved(k, at)) continue;
      verdict_->causes.push_back(Describe(k, &at));
    }
    Order(&verdict_->causes);
    if (verdict_->causes.size() > options_.most_causes) verdict_->causes.resize(options_.most_causes);
    // Parts beyond these that are not normal either must not pass for the normal rest.
    for (uint32_t k = 0; k < kBlames; ++k) {
      const bool is_named = std::any_of(verdict_->causes.begin(), verdict_->causes.end(),
                                        [&](const Cause& cause) { return cause.blame == static_cast<Blame>(k); });
      if (is_named || (more_work_ >> k & 1) != 0 || IsNormal(k, at) || at.residual_ns[k] <= 0 || IsMoved(k, at))
        continue;
      ++verdict_->unnamed;
      verdict_->unnamed_ns += at.residual_ns[k];
    }
  }

  static void Order(std::vector<Cause>* causes) {
    std::stable_sort(causes->begin(), causes->end(),
                     [](const auto& a, const auto& b) { return a.lost_ns > b.lost_ns; });
  }

  void ListLargest(const Contrast* at) {
    for (uint32_t k = 0; k < kBlames; ++k) {
      const int64_t ns = at != nullptr ? at->lost_ns[k] : blame_.blame.ns[k];
      if (ns >= kLeastListed) verdict_->largest.push_back(Describe(k, at));
    }
    Order(&verdict_->largest);
    if (verdict_->largest.size() > options_.most_causes) verdict_->largest.resize(options_.most_causes);
  }

  Cause Describe(uint32_t k, const Contrast* at) const {
    Cause cause;
    cause.blame = static_cast<Blame>(k);
    cause.blame_ns = blame_.blame.ns[k];
    cause.normal_ns = verdict_->normal.ns[k];
    cause.common_ns = at != nullptr ? at->common_ns[k] : 0;
    cause.excess_ns = cause.blame_ns - cause.normal_ns - cause.common_ns;
    cause.lost_ns = at != nullptr ? at->lost_ns[k] : cause.excess_ns;
    const int64_t excess_ns = verdict_->latency_ns - verdict_->typical_ns;
    if (excess_ns > 0) cause.share = static_cast<double>(cause.excess_ns) / static_cast<double>(excess_ns);
    cause.p = at != nullptr ? at->p[k] : 1;
    cause.p_of_launches = at != nullptr ? POfLaunches(k, *at) : 1;
    const double p = std::min({1.0, p_factor_ * cause.p, 2 * cause.p_of_launches});
    FindConfidence(index_, blame_, options_, *verdict_, unexplained_, p, &cause);
    FindEvidence(index_, blame_, &cause);
    auto close = BatchClose::kUnknown;
    if (!cause.longest.empty() && blame_.segments[cause.longest[0]].batch != kNone)
      close = static_cast<BatchClose>(index_.trace.batches[blame_.segments[cause.longest[0]].batch].close);
    cause.advice = AdviceFor(cause.blame, close, ProofOf(index_, blame_, cause, *verdict_));
    return cause;
  }

  // ---- Savings

  int64_t Without(const Counterfactual& play, uint32_t parts) const {
    return play.LatencyWithout([&](const BlameSegment& segment) { return (parts & BlameBit(segment.blame)) != 0; });
  }

  void FindLimits(const Counterfactual& play) {
    for (std::vector<Cause>* causes : {&verdict_->causes, &verdict_->largest}) {
      for (Cause& cause : *causes) cause.without_ns = Without(play, BlameBit(cause.blame));
    }
    FindDrags(play);
  }

  // The place of the excess within a part is unknown, so a saving is at most the excess, and at most the whole part.
  // Parts without a name in the verdict may be shorter than usual; then a smaller saving makes the request normal.
  void FindSavings(const Counterfactual& play) {
    Verdict& v = *verdict_;
    const int64_t excess_ns = std::max<int64_t>(v.latency_ns - v.typical_ns, 0);
    uint32_t named = 0;
    int64_t sum_ns = 0;
    for (std::vector<Cause>* causes : {&v.causes, &v.largest}) {
      for (Cause& cause : *causes) {
        const int64_t longer_ns =
            cause.blame_ns - cause.normal_ns - (v.kind == VerdictKind::kUniform ? cause.common_ns : 0);
        cause.saving_ns = std::min({std::max<int64_t>(longer_ns, 0), v.latency_ns - cause.without_ns, excess_ns});
      }
    }
    for (const Cause& cause : v.causes) {
      named |= BlameBit(cause.blame);
      sum_ns += cause.saving_ns;
    }
    v.joint_saving_ns = std::min({sum_ns, v.latency_ns - Without(play, named), excess_ns});
  }

  void FindDrags(const Counterfactual& play) {
    const std::vector<BlameSegment>& segments = blame_.segments;
    std::vector<uint32_t> longest(segments.size());
    std::iota(longest.begin(), longest.end(), 0u);
    const size_t count = std::min(longest.size(), kDrags);
    std::partial_sort(longest.begin(), longest.begin() + static_cast<std::ptrdiff_t>(count), longest.end(),
                      [&](uint32_t a, uint32_t b) {
                        const int64_t of_a = segments[a].end_ns - segments[a].begin_ns;
                        const int64_t of_b = segments[b].end_ns - segments[b].begin_ns;
                        return of_a != of_b ? of_a > of_b : a < b;
                      });
    for (size_t i = 0; i < count; ++i) {
      const BlameSegment* const gone = &segments[longest[i]];
      const int64_t without_ns = play.LatencyWithout([&](const BlameSegment& segment) { return &segment == gone; });
      verdict_->drags.push_back({longest[i], verdict_->latency_ns - without_ns});
    }
  }

  const blame::Index& index_;
  const RequestBlame& blame_;
  const VerdictOptions& options_;
  Verdict* const verdict_;
  double alpha_few_ = options_.alpha_few;
  double p_of_launches_ = 1;  // if they were tested
  bool are_launches_normal_ = true;
  double p_factor_ = 1;     // of p, the price of control over both tests
  uint32_t more_work_ = 0;  // parts that are longer because there was more to do
  uint32_t unknown_ = kUnknown;
  uint32_t may_be_other_ = 0;  // recorded waits, too long perhaps for another reason
  MixedWork::Doubt mixed_doubt_ = MixedWork::Doubt::kNone;
  Unexplained unexplained_;
};

// Leaves those of `rows` that were recorded at `depth`, if they are enough. Returns whether all compared requests then
// have the same knowledge of GPUs.
bool KeepDepth(Depth depth, const BlameVector& blame, uint32_t at_any_depth, uint32_t least,
               std::vector<BaselineRow>* rows) {
  const auto is_like = [&](const BaselineRow& row) {
    return ForGpus(row.work.depth) == ForGpus(depth) && IsWhole(row.work.depth, row.blame, at_any_depth);
  };
  if (!IsWhole(depth, blame, at_any_depth)) return false;
  const auto like = static_cast<size_t>(std::count_if(rows->begin(), rows->end(), is_like));
  if (like == rows->size()) return true;
  if (like < least) return false;
  rows->erase(std::remove_if(rows->begin(), rows->end(), [&](const BaselineRow& row) { return !is_like(row); }),
              rows->end());
  return true;
}

// The work it brought to batches that it joined in this time, as far as Join said it.
double JoinedWork(const blame::Index& index, uint32_t request, model::Interval when) {
  const auto* const end = index.memberships.end(request);
  double work = 0;
  for (const auto* in = std::partition_point(index.memberships.begin(request), end,
                                             [&](const auto& row) { return row.join_ns < when.begin_ns; });
       in != end && in->join_ns < when.end_ns; ++in)
    work += in->work;
  return work;
}

// 0: it has none.
double SizeOf(const model::RequestRow& row) {
  return !row.sizes.empty() && std::isfinite(row.sizes[0].value) ? row.sizes[0].value : 0;
}

}  // namespace

WorkDone WorkOf(const blame::Index& index, uint32_t request) {
  const model::RequestRow& row = index.trace.requests[request];
  WorkDone work;
  work.depth = facts::DepthOf(index.trace, row.begin_ns, index.trace.RequestEnd(row));
  work.size = SizeOf(row);
  if (work.size == 0) work.size = JoinedWork(index, request, {row.begin_ns, index.trace.RequestEnd(row)});
  work.tokens = row.output_tokens;
  work.launches = index.gpu.OpsOfRequest(request);
  uint32_t waits = index.gpu.WaitsOfRequest(request);
  uint32_t last = kNone;
  for (const auto* in = index.memberships.begin(request); in != index.memberships.end(request); ++in) {
    if (in->batch == last) continue;
    last = in->batch;
    ++work.steps;
    const uint32_t recorded = index.gpu.OpsOfBatch(in->batch);
    work.launches += recorded != 0 ? recorded : index.trace.batches[in->batch].launches;
    waits += index.gpu.WaitsOfBatch(in->batch);
  }
  if (waits != 0 || facts::AreWaitsRecorded(index.trace) ||
      index.gpu.AreOperationsRecorded(row.begin_ns, index.trace.RequestEnd(row)))
    work.waits = waits;
  return work;
}

// The time before a token lies in one iteration: only the work it brought there is counted. A first token's is the size
// of its request, if no other is known.
WorkDone WorkOfBlame(const blame::Index& index, const RequestBlame& blame) {
  if (blame.token == kNone) return WorkOf(index, blame.request);
  WorkDone work;
  work.depth = facts::DepthOf(index.trace, blame.begin_ns, blame.end_ns);
  work.size = JoinedWork(index, blame.request, {blame.begin_ns, blame.end_ns});
  if (work.size == 0 && blame::IsFirstToken(index.trace, blame.token))
    work.size = SizeOf(index.trace.requests[blame.request]);
  return work;
}

// Finds what the comparison with normal requests does not tell.
void FindContext(const blame::Index& index, const RequestBlame& blame, const VerdictOptions& options,
                 Verdict* verdict) {
  ExplainBySize(index, blame, options, verdict);
  FindOthers(index, blame, verdict);
  FindStage(index, blame, verdict);
  FindTree(index, blame, verdict);
}

Verdict MakeVerdict(const blame::Index& index, const RequestBlame& blame, const Baseline& baseline, int64_t now_ns,
                    const VerdictOptions& options) {
  const model::RequestRow& row = index.trace.requests[blame.request];
  Verdict verdict;
  std::vector<BaselineRow> rows;
  uint32_t least = std::max(options.least, 4u);
  const uint32_t bucket = blame.token == kNone ? row.size_bucket : blame::TokenBucket(index, blame.token);
  const std::string_view route = index.trace.strings[row.route];
  verdict.level = baseline.Find(route, bucket, now_ns, least, &rows);
  if (verdict.level == Baseline::Level::kNone && options.least_few < least) {
    least = std::max(options.least_few, 4u);
    verdict.level = baseline.Find(route, bucket, now_ns, least, &rows);
  }
  // Requests of other routes do other work: they stand in for too few of the route, and not for none.
  std::vector<BaselineRow> any;
  if (verdict.level == Baseline::Level::kProcess && blame.token == kNone &&
      baseline.Find(route, bucket, now_ns, 1, &any) == Baseline::Level::kProcess) {
    verdict.level = Baseline::Level::kNone;
    verdict.why_not = "no normal request of its route is known, and other routes do other work";
    rows.clear();
  }
  const WorkDone work = WorkOfBlame(index, blame);
  const uint32_t at_any_depth = (index.gpu_use.AreSampled(blame.begin_ns, blame.end_ns) ? kByCounters : 0) |
                                (facts::AreWaitsRecorded(index.trace) ? kByWaits : 0) |
                                (index.compiles.are_recorded() ? BlameBit(Blame::kLazyLoadJit) : 0);
  if (KeepDepth(work.depth, blame.blame, at_any_depth, least, &rows)) {
    RequestComparison(index, blame, options, &verdict).Compare(rows, work);
    FindContext(index, blame, options, &verdict);
    return verdict;
  }
  verdict.is_coarse = true;
  RequestBlame coarse = blame;
  const bool has_batches = index.memberships.begin(blame.request) != index.memberships.end(blame.request);
  MakeCoarse(&coarse.blame, has_batches);
  for (BlameSegment& segment : coarse.segments) segment.blame = Coarse(segment.blame, has_batches);
  for (BaselineRow& normal : rows) MakeCoarse(&normal.blame, has_batches);
  RequestComparison(index, coarse, options, &verdict).Compare(rows, work);
  FindContext(index, coarse, options, &verdict);
  return verdict;
}

}  // namespace pitot::verdict

PITOT_NAMESPACE_BEGIN
namespace analyze {

const char* VerdictKindName(VerdictKind kind) noexcept {
  static constexpr const char* kNames[] = {"undetermined", "causes", "uniform", "more_work", "diffuse", "not_unusual"};
  const auto i = static_cast<uint8_t>(kind);
  return i < 6 ? kNames[i] : kNames[0];
}

WorkDone WorkOf(const BlameIndex& index, const RequestBlame& blame) noexcept {
  if (index.data() == nullptr || blame.request >= index.data()->index.trace.requests.size()) return {};
  return verdict::WorkOfBlame(index.data()->index, blame);
}

Status FindVerdict(const BlameIndex& index, const RequestBlame& blame, const Baseline& baseline, int64_t now_ns,
                   const VerdictOptions& options, Verdict* verdict) noexcept {
  if (index.data() == nullptr) return Status(StatusCode::kInvalidArgument, "index: not built");
  if (blame.request >= index.data()->index.trace.requests.size())
    return Status(StatusCode::kInvalidArgument, "blame: its request is not in the index");
  try {
    *verdict = verdict::MakeVerdict(index.data()->index, blame, baseline, now_ns, options);
    return Status();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory to compare the request");
  } catch (...) {
    return Status(StatusCode::kInternal, "the request could not be compared");
  }
}

}  // namespace analyze
PITOT_NAMESPACE_END
