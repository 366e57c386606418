// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/verdict.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <tuple>

#include "analyze/clock_state.h"
#include "analyze/contrast.h"
#include "analyze/depths.h"
#include "analyze/index_data.h"
#include "analyze/proof.h"
#include "base/columns.h"
#include "base/quantile.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

using model::kNone;

namespace {

// Parts that say that time passed, not why.
constexpr uint32_t kUnknown =
    BlameBit(Blame::kUntraced) | BlameBit(Blame::kHostBlockedUnknown) | BlameBit(Blame::kGpuExcessUnknown);
// What work on a GPU, a step of a batch or a token is made of.
constexpr uint32_t kModelWork = BlameBit(Blame::kHostOncpuFramework) | BlameBit(Blame::kLaunchApi) |
                                BlameBit(Blame::kLaunchLatency) | BlameBit(Blame::kH2d) | BlameBit(Blame::kD2h) |
                                BlameBit(Blame::kD2dMemset) | BlameBit(Blame::kGpuExecExpected) |
                                BlameBit(Blame::kDispatchGap) | BlameBit(Blame::kBatchWindow);
// What is made of operations of a GPU alone: more of them take more of it.
constexpr uint32_t kOfOperations = kModelWork & ~(BlameBit(Blame::kHostOncpuFramework) | BlameBit(Blame::kBatchWindow));
// Of GPUs, and what is left of a wait for one where it is not known when that was done.
constexpr uint32_t kByGpuTimes = kOfGpus | BlameBit(Blame::kHostOncpuFramework) | BlameBit(Blame::kHostBlockedUnknown);
// A factor below this is no "more".
constexpr double kLeastMore = 1.1;
constexpr double kSizeQuantile = 0.99;
// Confidence where requests of other sizes, routes or depths had to do, where few are known, where events were lost or
// GPUs' times cannot be compared with the host's.
constexpr double kOtherSizes = 0.6, kOtherRoutes = 0.5, kFew = 0.8, kLossy = 0.5, kSkewed = 0.5, kOtherDepths = 0.8;
// And of what is inferred: that work of which nobody says for whom it was is not the request's own (analyzers.md
// section 2.3 has .7 for what is inferred), that code was on a CPU where no counter of its thread says so.
constexpr double kForNobody = 0.7, kUncounted = 0.8;
// And of sleep that no wait accounts for; and, the more the smaller its share of the excess is, of what may only have
// come with another part. These two and kOtherSizes were fitted on the scoreboard's `tune` (docs/why.md).
constexpr double kNoWaitSays = 0.9, kCameAlong = 0.1;
constexpr uint32_t kBehindOthers = BlameBit(Blame::kAdmissionQueue) | BlameBit(Blame::kQueueWaitOthers) |
                                   BlameBit(Blame::kExecutorBusy) | BlameBit(Blame::kGpuQueueWaitOthers);

int64_t Of(const Parts& parts, uint32_t mask) {
  int64_t ns = 0;
  for (uint32_t k = 0; k < kBlames; ++k) ns += (mask >> k & 1) != 0 ? parts[k] : 0;
  return ns;
}

class Comparison {
 public:
  Comparison(const Index& index, const RequestBlame& blame, const VerdictOptions& options, Verdict* verdict)
      : index_(index), blame_(blame), options_(options), verdict_(verdict) {}

  void Decide(const std::vector<BaselineRow>& rows, const WorkDone& work) {
    std::vector<BlameVector> vectors;
    for (const auto& row : rows) vectors.push_back(row.blame);
    const Normal normal(vectors, options_.execution);
    Verdict& v = *verdict_;
    v.latency_ns = blame_.blame.Total();
    v.baseline_size = static_cast<uint32_t>(rows.size());
    if (v.level == Baseline::Level::kNone || normal.is_empty()) {
      v.kind = VerdictKind::kUndetermined;
      v.is_coarse = false;
      v.why_not = "too few requests like it are known: " + std::to_string(options_.least) + " are needed";
      return ListLargest(nullptr);
    }
    Contrast at = normal.Test(blame_.blame);
    v.typical_ns = normal.latency_ns();
    std::copy(normal.mu_ns().begin(), normal.mu_ns().end(), v.normal.ns);
    v.percentile = normal.Percentile(v.latency_ns);
    v.alpha = rows.size() >= options_.least_many ? options_.alpha : options_.alpha_few;
    v.least_p = normal.least_p();
    v.rest_ns = v.latency_ns - v.typical_ns;
    const double latency = static_cast<double>(std::max<int64_t>(v.latency_ns, 1));
    if (static_cast<double>(blame_.clamped_ns) > index_.options.most_clamped * latency) {
      v.why_not = "times of the trace contradict each other: " + base::Duration(blame_.clamped_ns) + " had to be bent";
      return ListLargest(&at);
    }
    if (v.rest_ns <= 0 || v.percentile <= options_.normal_percentile) {
      v.kind = VerdictKind::kNotUnusual;
      return;
    }
    if (IsMoreWork(rows, work, at)) {
      v.kind = VerdictKind::kMoreWork;
      return ListLargest(&at);
    }
    const bool is_in_more_pieces = !v.more_of.empty() && more_work_ == 0;
    if (is_in_more_pieces) {
      const double p = OftenAsMany(rows, work.launches, normal);
      for (uint32_t k = 0; k < kBlames; ++k) {
        if ((kOfOperations >> k & 1) != 0 && at.residual_ns[k] > 0) at.p[k] = std::min(at.p[k], p);
      }
    }
    FindCauses(at);
    if (is_in_more_pieces && v.causes.empty()) {  // and no part that is outside of what is normal
      v.kind = VerdictKind::kMoreWork;
      return ListLargest(&at);
    }
    // Where most of the excess is in time that nothing explains, what the rest has in common says nothing of all.
    const bool is_uniform = more_work_ == 0 &&
                            at.common_factor > std::max(options_.least_common_factor, normal.usual_common_factor()) &&
                            static_cast<double>(unknown_ns_) < options_.most_unknown * static_cast<double>(v.rest_ns);
    if (is_uniform) {
      v.common_factor = at.common_factor;
      v.common_ns = Of(at.common_ns, ~uint32_t{0});
      v.clocks = ClockState(index_.trace, {blame_.begin_ns, blame_.end_ns});
      v.rest_ns -= v.common_ns;
    }
    for (const Cause& cause : v.causes) v.rest_ns -= cause.excess_ns;
    const bool is_known = std::any_of(v.causes.begin(), v.causes.end(),
                                      [](const auto& cause) { return (kUnknown & BlameBit(cause.blame)) == 0; });
    if (is_uniform) {
      v.kind = VerdictKind::kUniform;
    } else if (is_known) {
      v.kind = VerdictKind::kCauses;
    } else if (v.percentile <= options_.usual_percentile && v.causes.empty()) {
      v.kind = VerdictKind::kNotUnusual;
    } else if (unknown_share_ >= options_.most_unknown) {
      v.kind = VerdictKind::kUndetermined;
      v.why_not = "most of the excess is in time that nothing explains";
    } else if (more_work_ != 0 && v.causes.empty()) {
      v.kind = VerdictKind::kMoreWork;
    } else {
      v.kind = v.causes.empty() ? VerdictKind::kDiffuse : VerdictKind::kCauses;
    }
    if (v.causes.empty()) ListLargest(&at);
    v.joint_saving_ns = Saving(v.causes);
  }

 private:
  // ---- More of the same work (2.9, step 1): what so many more units would have taken at the usual time of one. Where
  // that explains what its parts took longer, but little of the excess, these parts alone are more work.
  bool IsMoreWork(const std::vector<BaselineRow>& rows, const WorkDone& work, const Contrast& at) {
    const auto excess = static_cast<double>(verdict_->latency_ns - verdict_->typical_ns);
    double best = 0, best_of = 0;  // of how much more of those parts
    uint32_t best_where = 0;
    const auto consider = [&](const char* what, double units, double usually, uint32_t where) {
      if (usually <= 0 || units < kLeastMore * usually) return;
      int64_t usual_ns = 0, more_ns = 0;
      for (uint32_t k = 0; k < kBlames; ++k) {
        if ((where >> k & 1) == 0) continue;
        usual_ns += verdict_->normal.ns[k];
        more_ns += at.excess_ns[k];
      }
      // No more than there is: more work that took no longer explains nothing.
      const double by_count = (units / usually - 1) * static_cast<double>(usual_ns);
      const double explained = std::min(by_count, static_cast<double>(more_ns));
      if (explained <= best) return;
      best = explained;
      best_of = static_cast<double>(more_ns);
      best_where = where;
      verdict_->more_of = what;
      verdict_->more_factor = units / usually;
    };
    const auto mean = [&](const auto& of) {
      double sum = 0;
      for (const auto& row : rows) sum += static_cast<double>(of(row.work));
      return sum / static_cast<double>(rows.size());
    };
    std::vector<double> sizes;
    for (const auto& row : rows) sizes.push_back(row.work.size);
    // Among requests of its own size, more than nearly all; among those of any, more than most.
    const double quantile = verdict_->level == analyze::Baseline::Level::kCell ? kSizeQuantile : 0.5;
    const double large = base::Quantile(std::move(sizes), quantile);
    if (work.size > large) consider("size", work.size, mean([](auto& w) { return w.size; }), options_.execution);
    consider("steps", work.steps, mean([](auto& w) { return w.steps; }), kModelWork);
    consider("tokens", work.tokens, mean([](auto& w) { return w.tokens; }), kModelWork);
    const double least = options_.more_work_share * excess;
    if (best >= least) return true;
    if (best > 0 && best >= options_.more_work_share * best_of) {
      more_work_ = best_where;
      verdict_->more_ns = Of(at.excess_ns, best_where);
      return false;
    }
    // What a request asked for is work; in how many pieces the server does it is the server's own affair, and a cause.
    // Only where requests of other sizes are compared with may more pieces be a larger request.
    if (!verdict_->is_coarse) consider("launches", work.launches, mean([](auto& w) { return w.launches; }), kModelWork);
    if (best >= least) return verdict_->level != analyze::Baseline::Level::kCell;
    verdict_->more_of.clear();
    verdict_->more_factor = 1;
    return false;
  }

  // How often a normal request launches so much, of those that calibrate latencies: the p of a count.
  double OftenAsMany(const std::vector<BaselineRow>& rows, uint32_t launches, const Normal& normal) const {
    uint32_t all = 0, as_many = 0;
    for (const BaselineRow& row : rows) {
      if (normal.Percentile(row.blame.Total()) > options_.normal_percentile) continue;
      ++all;
      as_many += row.work.launches >= launches ? 1 : 0;
    }
    return (1.0 + as_many) / (1.0 + all);
  }

  // ---- Causes (2.9, step 3)
  void FindCauses(const Contrast& at) {
    const int64_t excess_ns = verdict_->latency_ns - verdict_->typical_ns;
    for (uint32_t k = 0; k < kBlames; ++k) {
      const int64_t ns = std::max<int64_t>(at.residual_ns[k], 0);
      positive_ns_ += ns;
      if ((kUnknown >> k & 1) != 0) unknown_ns_ += ns;
    }
    unknown_share_ = ShareOfPositive(unknown_ns_);
    for (uint32_t k = 0; k < kBlames; ++k) {
      const auto residual = static_cast<double>(at.residual_ns[k]);
      if ((more_work_ >> k & 1) != 0 || at.p[k] > verdict_->alpha || at.residual_ns[k] < options_.least_excess_ns ||
          residual < options_.least_share * static_cast<double>(excess_ns))
        continue;
      verdict_->causes.push_back(Describe(k, &at));
    }
    Order(&verdict_->causes);
    if (verdict_->causes.size() > options_.most_causes) verdict_->causes.resize(options_.most_causes);
    // What is beyond these and outside of what is normal all the same must not pass for the rest of it.
    for (uint32_t k = 0; k < kBlames; ++k) {
      const bool is_named = std::any_of(verdict_->causes.begin(), verdict_->causes.end(),
                                        [&](const Cause& cause) { return cause.blame == static_cast<Blame>(k); });
      if (is_named || (more_work_ >> k & 1) != 0 || at.p[k] > verdict_->alpha || at.residual_ns[k] <= 0) continue;
      ++verdict_->unnamed;
      verdict_->unnamed_ns += at.residual_ns[k];
    }
  }

  static void Order(std::vector<Cause>* causes) {
    std::stable_sort(causes->begin(), causes->end(),
                     [](const auto& a, const auto& b) { return a.excess_ns > b.excess_ns; });
  }

  void ListLargest(const Contrast* at) {
    for (uint32_t k = 0; k < kBlames; ++k) {
      if (at != nullptr ? at->residual_ns[k] > 0 : blame_.blame.ns[k] > 0) verdict_->largest.push_back(Describe(k, at));
    }
    Order(&verdict_->largest);
    if (verdict_->largest.size() > options_.most_causes) verdict_->largest.resize(options_.most_causes);
  }

  Cause Describe(uint32_t k, const Contrast* at) const {
    Cause cause;
    cause.blame = static_cast<Blame>(k);
    cause.blame_ns = blame_.blame.ns[k];
    cause.normal_ns = verdict_->normal.ns[k];
    cause.excess_ns = at != nullptr ? at->residual_ns[k] : cause.blame_ns;
    const int64_t excess_ns = verdict_->latency_ns - verdict_->typical_ns;
    if (excess_ns > 0) cause.share = static_cast<double>(cause.excess_ns) / static_cast<double>(excess_ns);
    cause.p = at != nullptr ? at->p[k] : 1;
    cause.confidence = (1 - cause.p) * (1 - UnknownBeside(cause)) * QualityFactor(cause.blame) *
                       ProofFactor(cause.blame) * (1 - kCameAlong * (1 - cause.share) * (1 - cause.share));
    for (uint32_t i = 0; i < blame_.segments.size(); ++i) {
      if (blame_.segments[i].blame == cause.blame) cause.longest.push_back(i);
    }
    const auto length = [&](uint32_t i) { return blame_.segments[i].end_ns - blame_.segments[i].begin_ns; };
    std::stable_sort(cause.longest.begin(), cause.longest.end(),
                     [&](uint32_t a, uint32_t b) { return length(a) > length(b); });
    FindCulprit(&cause);
    if (cause.longest.size() > 3) cause.longest.resize(3);
    auto close = BatchClose::kUnknown;
    if (!cause.longest.empty() && blame_.segments[cause.longest[0]].batch != kNone)
      close = static_cast<BatchClose>(index_.trace.batches[blame_.segments[cause.longest[0]].batch].close);
    cause.advice = AdviceFor(cause.blame, close, analyze::ProofOf(index_, blame_, cause, *verdict_, ProofOf(cause)));
    cause.saving_ns = Saving({cause});
    return cause;
  }

  analyze::HostProof ProofOf(const analyze::Cause& cause) const {
    if (cause.longest.empty()) return analyze::HostProof::kNone;
    if (cause.blame == Blame::kHostRunqueue && index_.host.ThrottledNs(blame_.begin_ns, blame_.end_ns) > 0)
      return analyze::HostProof::kQuota;
    if (cause.blame == Blame::kHostPagefaultIo && blame_.segments[cause.longest[0]].counter != kNone)
      return analyze::HostProof::kMajorFaults;
    const Culprit& by = blame_.segments[cause.longest[0]].by;
    if (cause.blame == Blame::kExecutorBusy && by.batch == kNone && by.request != kNone)
      return analyze::HostProof::kInOwnBatch;
    return analyze::HostProof::kNone;
  }

  double ShareOfPositive(int64_t ns) const {
    return positive_ns_ == 0 ? 0 : static_cast<double>(ns) / static_cast<double>(positive_ns_);
  }

  // What nothing explains makes every cause less sure, and itself; but that a thread slept is known.
  double UnknownBeside(const Cause& cause) const {
    return cause.blame == Blame::kHostBlockedUnknown ? unknown_share_ - ShareOfPositive(cause.excess_ns)
                                                     : unknown_share_;
  }

  double QualityFactor(Blame blame) const {
    double factor = blame_.is_reliable ? 1 : kLossy;
    if (!index_.gpu.are_times_known() && (kByGpuTimes & BlameBit(blame)) != 0) factor *= kSkewed;
    if (verdict_->baseline_size < options_.least_many) factor *= kFew;
    if (verdict_->level == Baseline::Level::kRoute) factor *= kOtherSizes;
    if (verdict_->level == Baseline::Level::kProcess) factor *= kOtherRoutes;
    if (verdict_->is_coarse) factor *= kOtherDepths;
    return factor;
  }

  // How much of the time of a part is proved to be what it is called.
  double ProofFactor(Blame blame) const {
    if (blame == Blame::kHostBlockedUnknown) return kNoWaitSays;
    int64_t all_ns = 0, proved_ns = 0;
    for (const BlameSegment& segment : blame_.segments) {
      if (segment.blame != blame) continue;
      const model::Interval known = index_.host.KnownOf(segment.thread);
      const bool is_counted = known.begin_ns <= segment.begin_ns && segment.end_ns <= known.end_ns;
      const bool is_for_somebody = segment.by.request != kNone || segment.by.batch != kNone;
      all_ns += segment.end_ns - segment.begin_ns;
      if ((kOnCpu & BlameBit(blame)) != 0 ? is_counted : is_for_somebody)
        proved_ns += segment.end_ns - segment.begin_ns;
    }
    if (2 * proved_ns >= all_ns) return 1;
    return (kOnCpu & BlameBit(blame)) != 0 ? kUncounted : (kBehindOthers & BlameBit(blame)) != 0 ? kForNobody : 1;
  }

  // Who had most of a cause's time.
  void FindCulprit(Cause* cause) const {
    using Key = std::tuple<uint32_t, uint32_t, uint32_t>;
    std::vector<std::pair<Key, uint32_t>> parts;  // and the segment
    for (const uint32_t i : cause->longest) {
      const Culprit& by = blame_.segments[i].by;
      if (!by.IsKnown()) continue;
      const bool is_ours = by.request != kNone || by.batch != kNone;
      parts.emplace_back(Key{by.request, by.batch, is_ours ? kNone : by.thread}, i);
    }
    std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t first = 0, last = 0; first < parts.size(); first = last) {
      int64_t ns = 0;
      for (; last < parts.size() && parts[last].first == parts[first].first; ++last)
        ns += blame_.segments[parts[last].second].end_ns - blame_.segments[parts[last].second].begin_ns;
      if (ns <= cause->by_ns) continue;
      cause->by_ns = ns;
      cause->by = blame_.segments[parts[first].second].by;
    }
  }

  // ---- What it would save to have causes normal (2.10): each segment is shortened in proportion, and what is
  // shortened in a detour is worth no more than its thread waited for it.
  int64_t Saving(const std::vector<Cause>& causes) const {
    std::vector<int64_t> saved(blame_.segments.size());
    for (const Cause& cause : causes) {
      int64_t left_ns = cause.excess_ns;
      for (size_t i = 0; i < saved.size(); ++i) {
        const BlameSegment& segment = blame_.segments[i];
        if (segment.blame != cause.blame || cause.blame_ns == 0) continue;
        const double share = static_cast<double>(cause.excess_ns) / static_cast<double>(cause.blame_ns);
        const auto part =
            static_cast<int64_t>(std::ceil(share * static_cast<double>(segment.end_ns - segment.begin_ns)));
        saved[i] = std::min({part, left_ns, segment.end_ns - segment.begin_ns});
        left_ns -= saved[i];
      }
    }
    for (const Detour& detour : blame_.detours) {
      int64_t room_ns = detour.slack_ns;
      const auto first =
          std::partition_point(blame_.segments.begin(), blame_.segments.end(),
                               [&](const BlameSegment& segment) { return segment.begin_ns < detour.begin_ns; });
      for (auto i = static_cast<size_t>(first - blame_.segments.begin()); i < saved.size(); ++i) {
        if (blame_.segments[i].end_ns > detour.end_ns) break;
        saved[i] = std::min(saved[i], room_ns);
        room_ns -= saved[i];
      }
    }
    int64_t total_ns = 0;
    for (const int64_t ns : saved) total_ns += ns;
    return total_ns;
  }

  const Index& index_;
  const RequestBlame& blame_;
  const VerdictOptions& options_;
  Verdict* const verdict_;
  uint32_t more_work_ = 0;   // parts that are longer because there was more to do
  int64_t unknown_ns_ = 0;   // of the positive residual, in parts that say nothing
  int64_t positive_ns_ = 0;  // the positive residual
  double unknown_share_ = 0;
};

// How deep GPUs were recorded from `begin_ns` to `end_ns`, at least. A trace that does not say was recorded the same
// all the time.
Depth DepthOf(const model::Trace& trace, int64_t begin_ns, int64_t end_ns) {
  const std::vector<model::DepthRow>& rows = trace.depths;
  if (rows.empty()) return trace.calls.size() != 0 || trace.gpu.size() != 0 ? Depth::kKernels : Depth::kScopes;
  auto row = std::partition_point(rows.begin(), rows.end(),
                                  [&](const model::DepthRow& one) { return one.begin_ns <= begin_ns; });
  if (row == rows.begin()) return Depth::kScopes;
  Depth depth = Depth::kOps;
  for (--row; begin_ns < end_ns; ++row) {
    if (row == rows.end() || row->begin_ns > begin_ns || row->end_ns <= begin_ns) return Depth::kScopes;
    depth = std::min(depth, row->depth);
    begin_ns = row->end_ns;
  }
  return depth;
}

// Leaves those of `rows` that were recorded at `depth`, if they are enough; returns whether all that is compared then
// says the same of GPUs.
bool KeepDepth(Depth depth, const BlameVector& blame, uint32_t least, std::vector<BaselineRow>* rows) {
  const auto is_like = [&](const BaselineRow& row) {
    return ForGpus(row.work.depth) == ForGpus(depth) && IsWhole(row.work.depth, row.blame);
  };
  if (!IsWhole(depth, blame)) return false;
  const auto like = static_cast<size_t>(std::count_if(rows->begin(), rows->end(), is_like));
  if (like == rows->size()) return true;
  if (like < least) return false;
  rows->erase(std::remove_if(rows->begin(), rows->end(), [&](const BaselineRow& row) { return !is_like(row); }),
              rows->end());
  return true;
}

}  // namespace

WorkDone WorkOf(const Index& index, uint32_t request) {
  const model::RequestRow& row = index.trace.requests[request];
  WorkDone work;
  work.depth = DepthOf(index.trace, row.begin_ns, index.trace.RequestEnd(row));
  if (!row.sizes.empty() && std::isfinite(row.sizes[0].value)) work.size = row.sizes[0].value;
  work.tokens = row.output_tokens;
  work.launches = index.gpu.OpsOfRequest(request);
  uint32_t last = kNone;
  for (const auto* in = index.memberships.begin(request); in != index.memberships.end(request); ++in) {
    if (in->batch == last) continue;
    last = in->batch;
    ++work.steps;
    work.launches += index.gpu.OpsOfBatch(in->batch);
  }
  return work;
}

Verdict MakeVerdict(const Index& index, const RequestBlame& blame, const Baseline& baseline, int64_t now_ns,
                    const VerdictOptions& options) {
  const model::RequestRow& row = index.trace.requests[blame.request];
  Verdict verdict;
  std::vector<BaselineRow> rows;
  const uint32_t least = std::max(options.least, 4u);
  verdict.level = baseline.Find(index.trace.strings[row.route], row.size_bucket, now_ns, least, &rows);
  const WorkDone work = WorkOf(index, blame.request);
  if (KeepDepth(work.depth, blame.blame, least, &rows)) {
    Comparison(index, blame, options, &verdict).Decide(rows, work);
    return verdict;
  }
  verdict.is_coarse = true;
  RequestBlame coarse = blame;
  const bool has_batches = work.steps != 0;
  MakeCoarse(&coarse.blame, has_batches);
  for (BlameSegment& segment : coarse.segments) segment.blame = Coarse(segment.blame, has_batches);
  for (BaselineRow& normal : rows) MakeCoarse(&normal.blame, has_batches);
  Comparison(index, coarse, options, &verdict).Decide(rows, work);
  return verdict;
}

const char* VerdictKindName(VerdictKind kind) noexcept {
  static constexpr const char* kNames[] = {"undetermined", "causes", "uniform", "more_work", "diffuse", "not_unusual"};
  const auto i = static_cast<uint8_t>(kind);
  return i < 6 ? kNames[i] : kNames[0];
}

WorkDone WorkOf(const BlameIndex& index, const RequestBlame& blame) noexcept {
  if (index.data() == nullptr || blame.request >= index.data()->index.trace.requests.size()) return {};
  return WorkOf(index.data()->index, blame.request);
}

Status FindVerdict(const BlameIndex& index, const RequestBlame& blame, const Baseline& baseline, int64_t now_ns,
                   const VerdictOptions& options, Verdict* verdict) noexcept {
  if (index.data() == nullptr) return Status(StatusCode::kInvalidArgument, "index: was not made");
  if (blame.request >= index.data()->index.trace.requests.size())
    return Status(StatusCode::kInvalidArgument, "blame: of no request of the index");
  try {
    *verdict = MakeVerdict(index.data()->index, blame, baseline, now_ns, options);
    return Status();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory to compare the request");
  } catch (...) {
    return Status(StatusCode::kInternal, "the request could not be compared");
  }
}

}  // namespace analyze
PITOT_NAMESPACE_END
