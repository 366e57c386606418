// SPDX-License-Identifier: Apache-2.0
#include "analyze/verdict/tree.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "analyze/blame/stays.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/statistics.h"
#include "analyze/verdict/by_size.h"
#include "analyze/verdict/cause_evidence.h"
#include "analyze/verdict/place.h"
#include "analyze/verdict/proof.h"

namespace pitot::verdict {

using blame::Norm;
using model::kNone;
using model::Trace;

namespace {

// Bounds of a tree: its depth, the nodes from which no further hop is followed, and culprits of one wait.
constexpr uint32_t kMostHops = 6;
constexpr size_t kMostBusy = 512;  // batches of an executor without a pause
constexpr size_t kMostNodes = 200, kMostCulprits = 64, kMostParts = 4;
// Less than this share of the victim's excess is not followed, nor is less than kLeastFollowedNs.
constexpr int64_t kLeastFollowed = 50, kLeastFollowedNs = 20'000;
// Confidence where nothing usual is known of a culprit; and of the victim, with its culprit's known or not.
constexpr double kNormUnknown = 0.7, kOnlyCulpritKnown = 0.7, kNothingKnown = 0.3;
// And for a part without a known reason.
constexpr double kNotExplained = 0.5;

constexpr uint32_t kWaitsForOthers = BlameBit(Blame::kAdmissionQueue) | BlameBit(Blame::kQueueWaitOthers) |
                                     BlameBit(Blame::kExecutorBusy) | BlameBit(Blame::kHostLock) |
                                     BlameBit(Blame::kHostGil) | BlameBit(Blame::kGpuQueueWaitOthers);

// Waits of a request, not of the thread that has it; as any time in a queue.
constexpr uint32_t kElsewhere = BlameBit(Blame::kAdmissionQueue) | BlameBit(Blame::kQueueWaitOthers) |
                                BlameBit(Blame::kBatchWindow) | BlameBit(Blame::kExecutorBusy);

// Parts of any work.
constexpr uint32_t kWork = BlameBit(Blame::kHostOncpuPre) | BlameBit(Blame::kHostOncpuFramework) |
                           BlameBit(Blame::kHostOncpuPost) | BlameBit(Blame::kLaunchApi) |
                           BlameBit(Blame::kGpuExecExpected);

bool IsLock(Blame blame) { return blame == Blame::kHostLock || blame == Blame::kHostGil; }

// Lowers the parts in proportion until they add up to `total`, which is at most their sum.
void ScaleTo(int64_t total, std::vector<int64_t>* parts) {
  __extension__ typedef __int128 Wide;
  const int64_t sum = std::accumulate(parts->begin(), parts->end(), int64_t{0});
  if (sum <= total || sum <= 0) return;
  int64_t left = total;
  std::vector<int64_t> scaled;
  for (const int64_t part : *parts) {
    scaled.push_back(static_cast<int64_t>(static_cast<Wide>(part) * total / sum));
    left -= scaled.back();
  }
  for (size_t i = 0; i < scaled.size() && left > 0; ++i) {
    const int64_t more = std::min(left, (*parts)[i] - scaled[i]);
    scaled[i] += more;
    left -= more;
  }
  *parts = std::move(scaled);
}

// The parts of `walk` within `segments`; both in order.
RequestBlame Clip(const RequestBlame& walk, const std::vector<BlameSegment>& segments) {
  RequestBlame clip;
  clip.request = walk.request;
  clip.begin_ns = walk.begin_ns;
  clip.end_ns = walk.end_ns;
  auto at = walk.segments.begin();
  for (const BlameSegment& within : segments) {
    while (at != walk.segments.end() && at->end_ns <= within.begin_ns) ++at;
    for (auto one = at; one != walk.segments.end() && one->begin_ns < within.end_ns; ++one) {
      BlameSegment part = *one;
      part.begin_ns = std::max(part.begin_ns, within.begin_ns);
      part.end_ns = std::min(part.end_ns, within.end_ns);
      clip.blame[part.blame] += part.end_ns - part.begin_ns;
      clip.segments.push_back(part);
    }
  }
  return clip;
}

int64_t LengthOf(const std::vector<BlameSegment>& segments) {
  int64_t ns = 0;
  for (const BlameSegment& segment : segments) ns += segment.end_ns - segment.begin_ns;
  return ns;
}

// The only request of a batch; kNone: there are several.
uint32_t OnlyMember(const Trace& trace, uint32_t batch) {
  const model::BatchRow& row = trace.batches[batch];
  uint32_t only = kNone;
  for (uint32_t m = row.first_member; m < row.first_member + row.member_count; ++m) {
    const uint32_t request = trace.members[m].request;
    if (request == kNone || (only != kNone && only != request)) return kNone;
    only = request;
  }
  return only;
}

class TreeMaker {
 public:
  TreeMaker(const blame::Index& index, const RequestBlame& blame, Verdict* verdict)
      : index_(index), trace_(index.trace), blame_(blame), verdict_(*verdict), tree_(verdict->tree), norms_(index) {}

  void Make() {
    const bool is_compared = verdict_.level != Baseline::Level::kNone;
    const bool has_route = verdict_.of_route.requests != 0;
    VerdictNode victim;
    victim.ns = victim.whole_ns = verdict_.latency_ns;
    victim.normal_ns = has_route ? verdict_.of_route.usual_ns : is_compared ? verdict_.typical_ns : -1;
    victim.excess_ns = verdict_.latency_ns - std::max<int64_t>(victim.normal_ns, 0);
    total_ns_ = victim.excess_ns;
    tree_.push_back(victim);
    advice_.push_back({"", ""});
    above_.push_back({kNone, blame::Outermost(trace_, index_.requests, blame_.request), kNone, kNone});
    // Its parts are in `largest` alone.
    const bool is_work = verdict_.kind == VerdictKind::kMoreWork && verdict_.more_ns != 0;
    std::vector<Cause> none;
    const std::vector<Cause>& causes = is_work ? none : verdict_.causes.empty() ? verdict_.largest : verdict_.causes;
    int64_t rest_ns = victim.excess_ns;
    if (is_work || has_route) rest_ns -= AddMoreWork(is_work ? verdict_.more_ns : verdict_.of_route.more_ns);
    for (const Cause& cause : causes) rest_ns -= AddCause(cause, is_compared);
    rest_ns -= verdict_.common_ns;
    for (const auto& [kind, ns] :
         {std::pair(NodeKind::kCommon, verdict_.common_ns), std::pair(NodeKind::kRest, rest_ns)}) {
      if (ns == 0) continue;
      VerdictNode node;
      node.kind = kind;
      node.parent = 0;
      node.excess_ns = ns;
      Add(node, {"", ""});
    }
    FindRoot(causes);
  }

 private:
  // Whose time it was.
  struct Who {
    uint32_t batch, request, thread, event;
    auto operator<=>(const Who&) const = default;
    bool IsKnown() const { return (batch & request & thread & event) != kNone; }
  };
  // A culprit of a wait, and the victim's time behind it.
  struct Hop {
    VerdictNode node;
    Who who = {kNone, kNone, kNone, kNone};
    std::vector<BlameSegment> behind;
    RequestBlame clip;          // its own time meanwhile
    BlameVector whole, normal;  // of all of its time
    bool has_parts = false;     // `normal` is known
    int64_t fault_ns = 0;       // beyond the usual
  };

  uint32_t Add(const VerdictNode& node, const Advice& advice) {
    tree_.push_back(node);
    advice_.push_back(advice);
    return static_cast<uint32_t>(tree_.size() - 1);
  }

  int64_t AddMoreWork(int64_t excess_ns) {
    VerdictNode node;
    node.kind = NodeKind::kMoreWork;
    node.parent = 0;
    node.excess_ns = excess_ns;
    // What its size usually takes is known from the baseline, or from the trace.
    const bool is_by_size = verdict_.more_of == "size" && verdict_.of_route.requests == 0;
    node.is_explained = !is_by_size || IsSizeKnown(index_, blame_);
    more_work_ = Add(node, {"", ""});
    return excess_ns;
  }

  int64_t AddCause(const Cause& cause, bool is_compared) {
    VerdictNode node;
    node.kind = NodeKind::kPart;
    node.blame = cause.blame;
    node.parent = 0;
    node.ns = node.whole_ns = cause.blame_ns;
    node.normal_ns = is_compared ? cause.normal_ns : -1;
    node.excess_ns = is_compared ? cause.lost_ns : cause.blame_ns;
    node.by = cause.by;
    node.place_ns = cause.place_ns;
    node.stacks = cause.stacks;
    if (!cause.longest.empty()) node.at = blame_.segments[cause.longest[0]];
    node.is_explained = IsExplained(blame_, node);
    const uint32_t row = Add(node, cause.advice);
    cause_of_[row] = &cause;
    std::vector<BlameSegment> segments;
    for (const BlameSegment& segment : blame_.segments) {
      if (segment.blame == cause.blame) segments.push_back(segment);
    }
    if (!is_compared) TakeUsualStays(segments, &tree_[row]);
    Follow(row, segments);
    return tree_[row].excess_ns;
  }

  // Where nothing usual is known of the victim: of each stay in a queue, the share that such stays take.
  void TakeUsualStays(const std::vector<BlameSegment>& segments, VerdictNode* node) {
    int64_t usual_ns = 0;
    bool is_kept = true;
    for (const BlameSegment& segment : segments) {
      if (segment.handoff == kNone) return;
      const model::HandoffRow& row = trace_.handoffs[segment.handoff];
      const Norm norm = norms_.OfQueue(row.queue);
      const int64_t stay_ns = row.take_ns - row.enqueue_ns, ns = segment.end_ns - segment.begin_ns;
      if (norm.count == 0 || stay_ns <= 0) return;
      const double share = std::min(1.0, static_cast<double>(norm.total_ns) / static_cast<double>(stay_ns));
      usual_ns += static_cast<int64_t>(share * static_cast<double>(ns));
      is_kept = is_kept && norm.is_kept;
    }
    node->is_normal_kept = is_kept;
    node->normal_ns = usual_ns;
    node->excess_ns -= usual_ns;
  }

  bool IsFollowed(const VerdictNode& node, const std::vector<BlameSegment>& segments) const {
    const bool is_for_others = (kWaitsForOthers & BlameBit(node.blame)) != 0 || IsNotified(node.blame, segments);
    return is_for_others && node.hops < kMostHops && tree_.size() < kMostNodes && IsMuch(node.excess_ns);
  }
  // Whether most of such a wait ended when a thread at work for nobody notified it: the question is what kept that.
  static bool IsNotified(Blame blame, const std::vector<BlameSegment>& segments) {
    if (blame != Blame::kHostBlockedUnknown) return false;
    int64_t all_ns = 0, notified_ns = 0;
    for (const BlameSegment& segment : segments) {
      const int64_t ns = segment.end_ns - segment.begin_ns;
      all_ns += ns;
      if (segment.by.thread != kNone && (segment.by.request & segment.by.batch) == kNone) notified_ns += ns;
    }
    return 2 * notified_ns > all_ns;
  }
  bool IsMuch(int64_t ns) const { return ns >= kLeastFollowedNs && ns >= total_ns_ / kLeastFollowed; }

  // Divides a wait's excess among those it was for, and load.
  void Follow(uint32_t part, const std::vector<BlameSegment>& segments) {
    const VerdictNode waits = tree_[part];
    if (!IsFollowed(waits, segments)) return;
    std::vector<Hop> hops = Culprits(waits, segments);
    int64_t unknown_ns = 0, load_ns = waits.excess_ns;
    bool are_usual = true;  // as far as nothing else is known of them
    for (size_t i = 0; i < hops.size(); ++i) {
      Hop& hop = hops[i];
      if (!hop.who.IsKnown()) {
        unknown_ns += hop.node.ns;
      } else if (i < kMostCulprits && hop.node.ns >= kLeastFollowedNs) {
        Examine(waits.blame, &hop);
      } else {
        are_usual = false;
      }
    }
    if (waits.blame == Blame::kHostBlockedUnknown) {
      std::erase_if(hops, [](const Hop& hop) { return !hop.who.IsKnown() || IsIdle(hop); });
      unknown_ns = 0;
      int64_t kept_ns = 0;
      for (const Hop& hop : hops) kept_ns += hop.node.ns;
      if (2 * kept_ns < waits.ns) return;
    }
    TogetherMuch(&hops);
    uint32_t usual = 0;
    std::vector<int64_t> faults;
    for (Hop& hop : hops) {
      are_usual = are_usual && (hop.fault_ns == 0 || hop.has_parts || IsMuch(hop.fault_ns));
      if (!IsMuch(hop.fault_ns)) hop.fault_ns = 0;
      // What a culprit with a fault does as a rule is load, too.
      const bool has_both = hop.fault_ns != 0 && IsMuch(hop.node.ns - hop.fault_ns);
      are_usual = are_usual && !has_both;
      usual += hop.who.IsKnown() && (hop.fault_ns == 0 || has_both) ? 1 : 0;
      faults.push_back(hop.fault_ns);
    }
    ScaleTo(waits.excess_ns, &faults);
    for (size_t i = 0; i < hops.size(); ++i) {
      if (faults[i] == 0) continue;
      load_ns -= faults[i];
      AddHop(part, faults[i], hops[i]);
    }
    AddRemainder(part, NodeKind::kUnexplained, std::min(unknown_ns, load_ns), 0, true);
    load_ns -= std::min(unknown_ns, load_ns);
    if (waits.blame == Blame::kExecutorBusy && waits.hops == 0) load_ns -= AddBacklog(part, load_ns, hops);
    AddRemainder(part, usual != 0 && IsMuch(load_ns) ? NodeKind::kLoad : NodeKind::kRest, load_ns, usual, are_usual);
  }

  // Whether nothing recorded says what a thread did for most of that time.
  static bool IsIdle(const Hop& hop) {
    int64_t idle_ns = 0;
    for (const BlameSegment& segment : hop.clip.segments) {
      if ((segment.blame == Blame::kUntraced || segment.blame == Blame::kHostBlockedUnknown) && segment.event == kNone)
        idle_ns += segment.end_ns - segment.begin_ns;
    }
    return 2 * idle_ns >= hop.node.ns;
  }

  // Makes one culprit of those with little fault each, if together it is much.
  void TogetherMuch(std::vector<Hop>* hops) const {
    Hop together;
    for (Hop& hop : *hops) {
      if (!hop.has_parts || hop.fault_ns == 0 || IsMuch(hop.fault_ns)) continue;
      if (together.node.count == 0) together.node = hop.node;
      ++together.node.count;
      together.fault_ns += hop.fault_ns;
      together.behind.insert(together.behind.end(), hop.behind.begin(), hop.behind.end());
      together.clip.segments.insert(together.clip.segments.end(), hop.clip.segments.begin(), hop.clip.segments.end());
      for (uint32_t k = 0; k < kBlames; ++k) {
        together.clip.blame.ns[k] += hop.clip.blame.ns[k];
        together.whole.ns[k] += FaultOf(hop, k);
      }
    }
    if (together.node.count < 2 || !IsMuch(together.fault_ns)) return;
    for (Hop& hop : *hops) {
      if (hop.has_parts && !IsMuch(hop.fault_ns)) hop.fault_ns = 0;
    }
    for (std::vector<BlameSegment>* segments : {&together.behind, &together.clip.segments}) {
      std::sort(segments->begin(), segments->end(),
                [](const BlameSegment& a, const BlameSegment& b) { return a.begin_ns < b.begin_ns; });
    }
    together.has_parts = true;  // `whole` is beyond the usual, and `normal` 0
    together.node.kind = NodeKind::kSeveral;
    together.node.by = {};
    together.node.ns = together.node.whole_ns = LengthOf(together.behind);
    together.node.normal_ns = together.node.ns - together.fault_ns;
    together.clip.request = blame_.request;
    hops->push_back(std::move(together));
  }

  void AddRemainder(uint32_t part, NodeKind kind, int64_t ns, uint32_t count, bool are_usual) {
    if (ns <= 0) return;
    VerdictNode node;
    node.is_explained = are_usual && kind != NodeKind::kUnexplained;
    node.kind = kind;
    node.parent = part;
    node.blame = tree_[part].blame;
    node.hops = tree_[part].hops;
    node.excess_ns = ns;
    node.count = count;
    Add(node, AdviceFor(kind == NodeKind::kLoad ? node.blame : Blame::kUntraced, BatchClose::kUnknown));
  }

  // Divides the rest of a wait among earlier batches of unusual length, if the executor has not been idle
  // since: had they not been, those ahead would have been done sooner. Returns the time.
  int64_t AddBacklog(uint32_t part, int64_t left_ns, const std::vector<Hop>& hops) {
    const int64_t before_ns = left_ns;
    uint32_t first = kNone;
    for (const Hop& hop : hops) {
      const uint32_t batch = hop.who.batch;
      if (batch != kNone && (first == kNone || trace_.batches[batch].begin_ns < trace_.batches[first].begin_ns))
        first = batch;
    }
    const std::vector<uint32_t> busy = BusyUntil(first);
    for (const uint32_t batch : busy) {
      const auto ahead = std::find_if(hops.begin(), hops.end(), [&](const Hop& hop) { return hop.who.batch == batch; });
      const int64_t blamed_ns = ahead != hops.end() ? ahead->fault_ns : 0;
      const Norm norm = norms_.OfBatch(batch);
      const int64_t longer_ns = trace_.batches[batch].duration_ns - norm.total_ns - blamed_ns;
      if (norm.count == 0 || !IsMuch(std::min(longer_ns, left_ns))) continue;
      Hop hop;
      hop.who = {batch, kNone, kNone, kNone};
      hop.node.by.batch = batch;
      hop.node.by.thread = trace_.batches[batch].thread;
      hop.node.blame = Blame::kExecutorBusy;
      hop.node.hops = 1;
      BlameSegment whole;
      whole.begin_ns = trace_.batches[batch].begin_ns;
      whole.end_ns = trace_.BatchEnd(trace_.batches[batch]);
      hop.node.ns = whole.end_ns - whole.begin_ns;
      hop.behind = {whole};
      ExamineBatch(&hop);
      hop.node.kind = NodeKind::kBacklog;
      hop.node.ns = 0;
      hop.fault_ns = std::min({hop.fault_ns - blamed_ns, left_ns});
      if (hop.node.normal_ns < 0 || !IsMuch(hop.fault_ns)) continue;
      left_ns -= hop.fault_ns;
      AddHop(part, hop.fault_ns, hop);
    }
    return before_ns - left_ns;
  }

  // The batch and its predecessors, as long as their thread had no time to wait for work; the last first.
  std::vector<uint32_t> BusyUntil(uint32_t batch) {
    std::vector<uint32_t> busy;
    if (batch == kNone || trace_.batches[batch].thread == kNone) return busy;
    const uint32_t thread = trace_.batches[batch].thread;
    if (on_thread_.empty()) {
      on_thread_.resize(trace_.threads.size());
      for (uint32_t row = 0; row < trace_.batches.size(); ++row) {
        if (trace_.batches[row].thread != kNone) on_thread_[trace_.batches[row].thread].push_back(row);
      }
    }
    const std::vector<uint32_t>& rows = on_thread_[thread];
    int64_t since_ns = trace_.batches[batch].begin_ns;
    busy.push_back(batch);
    for (auto at = std::lower_bound(rows.begin(), rows.end(), batch); at != rows.begin() && busy.size() < kMostBusy;) {
      const uint32_t before = *--at;
      const int64_t end_ns = trace_.BatchEnd(trace_.batches[before]);
      if (since_ns - end_ns > index_.options.wake_up_ns) break;
      since_ns = std::min(since_ns, trace_.batches[before].begin_ns);
      busy.push_back(before);
      // A batch with a wait for members found no backlog.
      const int64_t worked_ns = index_.usual.BatchNs(before);  // 0 for steps, which do not wait
      if (worked_ns > 0 && trace_.batches[before].duration_ns - worked_ns > index_.options.wake_up_ns) break;
    }
    return busy;
  }

  // Those it waited for, most time first.
  std::vector<Hop> Culprits(const VerdictNode& waits, const std::vector<BlameSegment>& segments) const {
    std::map<Who, Hop> by_who;
    for (const BlameSegment& segment : segments) {
      const Culprit& by = segment.by;
      Who who = {by.batch, by.request, by.thread, kNone};
      if (who.batch != kNone) who.request = kNone;
      if (who.batch != kNone || who.request != kNone) who.thread = kNone;
      if (who.batch == kNone && who.request == kNone) who.event = by.event;  // a holder may have no row
      Hop& hop = by_who[who];
      if (hop.behind.empty()) hop.node.by = by;
      hop.who = who;
      hop.behind.push_back(segment);
      hop.node.ns += segment.end_ns - segment.begin_ns;
    }
    std::vector<Hop> hops;
    for (auto& [who, hop] : by_who) {
      hop.node.blame = waits.blame;
      hop.node.hops = waits.hops + 1;
      hops.push_back(std::move(hop));
    }
    std::stable_sort(hops.begin(), hops.end(), [](const Hop& a, const Hop& b) { return a.node.ns > b.node.ns; });
    return hops;
  }

  // Finds its own time meanwhile, and the unusual part of it.
  void Examine(Blame waits, Hop* hop) {
    VerdictNode& node = hop->node;
    node.kind = hop->who.batch != kNone     ? NodeKind::kBatch
                : hop->who.request != kNone ? NodeKind::kRequest
                                            : NodeKind::kThread;
    node.whole_ns = node.ns;
    hop->fault_ns = node.ns;
    const bool is_above = std::find(above_.begin(), above_.end(), hop->who) != above_.end();
    const bool is_waiting =
        node.by.thread != kNone && std::find(waiting_.begin(), waiting_.end(), node.by.thread) != waiting_.end();
    if (node.by.thread == kNone && hop->who.batch == kNone && hop->who.request == kNone) return;  // a name, no more
    if (is_above || (IsLock(waits) && is_waiting)) {
      ExamineCycle(hop);
    } else if (waits == Blame::kGpuQueueWaitOthers) {
      ExamineGpuWork(hop);
    } else if (IsLock(waits)) {
      ExamineHold(hop);
    } else if (hop->who.batch != kNone) {
      ExamineBatch(hop);
    } else if (hop->who.request != kNone) {
      ExamineRequest(hop);
    } else {
      ExamineThread(hop);
    }
  }

  model::Interval TimeOf(const Hop& hop) const { return {hop.behind.front().begin_ns, hop.behind.back().end_ns}; }

  void Take(const RequestBlame& walk, Hop* hop) const {
    hop->clip = Clip(walk, hop->behind);
    hop->clip.request = blame_.request;
    hop->whole = hop->clip.blame;
  }

  // Takes the usual out of its fault: part by part if that is known, otherwise from its length.
  void Compare(const Norm& norm, Hop* hop) const {
    VerdictNode& node = hop->node;
    if (norm.count == 0) return;
    node.normal_ns = norm.total_ns;
    node.is_normal_kept = norm.is_kept;
    const int64_t longer_ns = std::max<int64_t>(node.whole_ns - norm.total_ns, 0);
    hop->fault_ns = std::min(node.ns, longer_ns);
    hop->has_parts = norm.has_parts;
    if (!norm.has_parts) return;
    hop->normal = norm.parts;
    int64_t parts_ns = 0;
    for (uint32_t k = 0; k < kBlames; ++k) parts_ns += FaultOf(*hop, k);
    hop->fault_ns = std::min(hop->fault_ns, parts_ns);
  }
  static int64_t FaultOf(const Hop& hop, uint32_t k) {
    if (!hop.has_parts) return hop.clip.blame.ns[k];
    return std::min(hop.clip.blame.ns[k], std::max<int64_t>(hop.whole.ns[k] - hop.normal.ns[k], 0));
  }

  const RequestBlame& WalkOfBatch(uint32_t batch) {
    const auto [at, is_new] = batches_.try_emplace(batch);
    const model::BatchRow& row = trace_.batches[batch];
    if (is_new) at->second = WalkStay(index_, {row.thread, batch, kNone, {row.begin_ns, trace_.BatchEnd(row)}});
    return at->second;
  }

  void ExamineBatch(Hop* hop) {
    const RequestBlame& walk = WalkOfBatch(hop->who.batch);
    Take(walk, hop);
    hop->whole = walk.blame;
    hop->node.whole_ns = walk.end_ns - walk.begin_ns;
    Compare(norms_.OfBatch(hop->who.batch), hop);
  }

  static bool IsInOwnBatch(const Hop& hop) {
    const BlameSegment& first = hop.behind.front();
    return hop.who.request != kNone && first.blame == Blame::kExecutorBusy && first.batch != kNone;
  }

  // A request ahead, or another member's own work in its batch.
  void ExamineRequest(Hop* hop) {
    const uint32_t request = hop->who.request;
    const BlameSegment& first = hop->behind.front();
    if (index_.PartBehind(first) != nullptr) return CompareWork(hop);  // it made the batch long: that is the root
    const bool is_member = IsInOwnBatch(*hop);
    Take(WalkStay(index_, {hop->node.by.thread, is_member ? first.batch : kNone, request, TimeOf(*hop)}), hop);
    if (is_member) return CompareScope(LongestScope(*hop), hop);
    const model::RequestRow& row = trace_.requests[request];
    RequestBlame walk;
    if (row.begin_known && row.end_known && blame::Walk(index_, request, &walk).Run()) {
      hop->node.whole_ns = walk.end_ns - walk.begin_ns;
      for (uint32_t k = 0; k < kBlames; ++k) hop->whole.ns[k] = std::max(hop->whole.ns[k], walk.blame.ns[k]);
      Compare(norms_.OfRequest(request), hop);
    }
  }

  // A member's work is its fault beyond the usual of requests. The usual is load.
  void CompareWork(Hop* hop) const {
    double usual_ns = 0;
    for (const BlameSegment& segment : hop->behind) {
      const blame::MixedWork::Part* const part = index_.PartBehind(segment);
      if (part == nullptr || part->work <= 0 || part->usual <= 0) return;
      usual_ns += static_cast<double>(segment.end_ns - segment.begin_ns) * std::min(part->usual / part->work, 1.0);
    }
    hop->node.normal_ns = std::min(std::llround(usual_ns), static_cast<long long>(hop->node.ns));
    hop->fault_ns = hop->node.ns - hop->node.normal_ns;
  }

  void ExamineThread(Hop* hop) {
    Take(WalkStay(index_, {hop->who.thread, kNone, kNone, TimeOf(*hop)}), hop);
    CompareScope(hop->who.event, hop);
  }

  void CompareScope(uint32_t event, Hop* hop) {
    blame::WaitArgs args;
    if (event == kNone || ReadWait(trace_, event, &args)) return;
    hop->node.whole_ns = trace_.EventEnd(event) - trace_.events.begin_ns[event];
    Compare(norms_.OfScope(event), hop);
  }
  uint32_t LongestScope(const Hop& hop) const {
    uint32_t longest = kNone;
    int64_t longest_ns = -1;
    for (const BlameSegment& segment : hop.behind) {
      if (segment.event == kNone) continue;
      const int64_t ns = trace_.EventEnd(segment.event) - trace_.events.begin_ns[segment.event];
      if (ns > longest_ns) longest = segment.event;
      longest_ns = std::max(longest_ns, ns);
    }
    return longest;
  }

  // One above it in the tree. If it was at work meanwhile, or without a CPU, it would have gone on.
  void ExamineCycle(Hop* hop) const {
    Take(WalkStay(index_, {hop->node.by.thread, kNone, kNone, TimeOf(*hop)}), hop);
    int64_t waited_ns = 0;
    for (const BlameSegment& segment : hop->clip.segments) {
      blame::WaitArgs args;
      const bool is_idle = segment.blame == Blame::kUntraced && segment.event == kNone;
      if (is_idle || ReadWait(trace_, segment.event, &args)) waited_ns += segment.end_ns - segment.begin_ns;
    }
    if (2 * waited_ns < hop->node.ns) return;
    hop->node.kind = NodeKind::kCycle;
    hop->clip = {};
  }

  void ExamineHold(Hop* hop) {
    Take(WalkHold(*hop), hop);
    blame::WaitArgs args;
    if (ReadWait(trace_, hop->behind.front().event, &args)) Compare(norms_.OfHold(args.resource), hop);
  }

  // The lock waits for the thread. While its request was elsewhere, as in a queue after its own Enqueue, the thread's
  // time counts. Recorded waits are the exception if they may be for the request.
  RequestBlame WalkHold(const Hop& hop) const {
    const uint32_t thread = hop.node.by.thread;
    RequestBlame walk = WalkStay(index_, {thread, hop.who.batch, hop.who.request, TimeOf(hop)});
    if (thread == kNone || std::none_of(walk.segments.begin(), walk.segments.end(), IsElsewhere)) return walk;
    const RequestBlame own = WalkStay(index_, {thread, kNone, kNone, TimeOf(hop)});
    std::vector<BlameSegment> hold;
    for (const BlameSegment& segment : walk.segments) {
      if (!IsElsewhere(segment)) {
        hold.push_back(segment);
        continue;
      }
      for (BlameSegment part : Clip(own, {segment}).segments) {
        if (MayAwaitRequest(part)) {
          const model::Interval when = {part.begin_ns, part.end_ns};
          part = segment;
          part.begin_ns = when.begin_ns;
          part.end_ns = when.end_ns;
        }
        hold.push_back(part);
      }
    }
    walk.segments = std::move(hold);
    return walk;
  }
  static bool IsElsewhere(const BlameSegment& segment) {
    return segment.handoff != kNone || (kElsewhere & BlameBit(segment.blame)) != 0;
  }
  bool MayAwaitRequest(const BlameSegment& segment) const {
    blame::WaitArgs args;
    return ReadWait(trace_, segment.event, &args) &&
           (args.kind == WaitKind::kFuture || args.kind == WaitKind::kCondition || args.kind == WaitKind::kDevice ||
            args.kind == WaitKind::kOther);
  }

  // Work of others on a GPU: each operation by its usual length, or all of its batch or request.
  void ExamineGpuWork(Hop* hop) {
    hop->node.kind = NodeKind::kGpuWork;
    int64_t fault_ns = 0, normal_ns = 0;
    bool is_known = true, is_kept = true, are_operations = true;
    for (const BlameSegment& segment : hop->behind) {
      are_operations = are_operations && segment.by.gpu != kNone && !index_.gpu.IsSpan(segment.by.gpu);
      const int64_t ns = segment.end_ns - segment.begin_ns,
                    usual_ns = segment.by.gpu != kNone ? index_.gpu.UsualNs(segment.by.gpu) : -1;
      is_known = is_known && usual_ns >= 0;
      is_kept = is_kept && is_known && index_.gpu.IsUsualKept(segment.by.gpu);
      normal_ns += std::max<int64_t>(usual_ns, 0);
      const int64_t longer_ns = usual_ns >= 0 ? trace_.gpu.duration_ns[segment.by.gpu] - usual_ns : ns;
      fault_ns += std::clamp<int64_t>(longer_ns, 0, ns);
    }
    const Norm norm = hop->who.batch != kNone     ? norms_.OfBatch(hop->who.batch)
                      : hop->who.request != kNone ? norms_.OfRequest(hop->who.request)
                                                  : Norm();
    hop->fault_ns = fault_ns;
    if (is_known) hop->node.normal_ns = normal_ns;
    hop->node.is_normal_kept = is_kept;
    if (norm.count == 0) return;
    // So far, if it is open.
    const int64_t whole_ns =
        hop->who.batch != kNone
            ? trace_.BatchEnd(trace_.batches[hop->who.batch]) - trace_.batches[hop->who.batch].begin_ns
            : trace_.RequestEnd(trace_.requests[hop->who.request]) - trace_.requests[hop->who.request].begin_ns;
    // More operations of usual length are beyond the usual, too.
    const int64_t longer_ns = std::clamp<int64_t>(whole_ns - norm.total_ns, 0, hop->node.ns);
    hop->fault_ns = is_known ? std::max(fault_ns, longer_ns) : longer_ns;
    hop->node.whole_ns = whole_ns;
    hop->node.normal_ns = norm.total_ns;
    hop->node.is_normal_kept = norm.is_kept;
    // A span may be long because its batch waited within it: for a CPU, or for others on the GPU.
    if (!are_operations && hop->who.batch != kNone) TakeParts(norm, hop);
  }

  // How long a batch waited on a GPU for batches of the victim, or of the culprits down to here.
  int64_t BehindThoseAboveNs(const RequestBlame& walk) const {
    int64_t ns = 0;
    for (const BlameSegment& segment : walk.segments) {
      const uint32_t batch = segment.by.batch;
      if (segment.blame != Blame::kGpuQueueWaitOthers || batch == kNone) continue;
      const auto is_it = [&](const Who& who) { return who.batch == batch || IsMember(who.request, batch); };
      if (std::any_of(above_.begin(), above_.end(), is_it)) ns += segment.end_ns - segment.begin_ns;
    }
    return ns;
  }
  bool IsMember(uint32_t request, uint32_t batch) const {
    const model::BatchRow& row = trace_.batches[batch];
    for (uint32_t m = row.first_member; request != kNone && m < row.first_member + row.member_count; ++m) {
      if (trace_.members[m].request == request) return true;
    }
    return false;
  }

  // The parts of a batch meanwhile, if they explain its fault.
  void TakeParts(const Norm& norm, Hop* hop) {
    Hop divided = *hop;
    const RequestBlame& walk = WalkOfBatch(hop->who.batch);
    Take(walk, &divided);
    if (2 * BehindThoseAboveNs(divided.clip) >= hop->fault_ns) {
      hop->node.is_explained = false;  // each waited for the other
      return;
    }
    divided.whole = walk.blame;
    Compare(norm, &divided);
    if (divided.has_parts && IsMuch(divided.fault_ns) && 2 * divided.fault_ns >= hop->fault_ns) *hop = divided;
  }

  void AddHop(uint32_t part, int64_t excess_ns, const Hop& hop) {
    VerdictNode node = hop.node;
    node.parent = part;
    node.excess_ns = excess_ns;
    const bool is_work = node.kind == NodeKind::kRequest && hop.clip.segments.empty();
    const Advice advice = node.kind == NodeKind::kCycle
                              ? Advice{"break_cycle",
                                       "Each waits for the other. Take locks in one order, and wait for nobody while "
                                       "holding one."}
                          : is_work           ? AdviceFor(node.blame, BatchClose::kUnknown, Proof::kLargeMember)
                          : IsInOwnBatch(hop) ? AdviceFor(node.blame, BatchClose::kUnknown, Proof::kInOwnBatch)
                                              : AdviceFor(node.blame, BatchClose::kUnknown);
    const uint32_t row = Add(node, advice);
    std::vector<int64_t> faults;
    for (uint32_t k = 0; k < kBlames; ++k) faults.push_back(FaultOf(hop, k));
    if (std::accumulate(faults.begin(), faults.end(), int64_t{0}) < excess_ns) return;
    ScaleTo(excess_ns, &faults);
    above_.push_back(hop.who);
    AddParts(row, hop, faults);
    above_.pop_back();
  }

  void AddParts(uint32_t row, const Hop& hop, const std::vector<int64_t>& faults) {
    std::vector<uint32_t> order(kBlames);
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return faults[a] > faults[b]; });
    int64_t rest_ns = tree_[row].excess_ns;
    for (size_t i = 0; i < kMostParts; ++i) {
      const uint32_t k = order[i];
      if (faults[k] == 0 || (i > 0 && !IsMuch(faults[k]))) continue;
      rest_ns -= faults[k];
      AddPart(row, static_cast<Blame>(k), faults[k], hop);
    }
    if (rest_ns == 0) return;
    VerdictNode rest;
    rest.kind = NodeKind::kRest;
    rest.parent = row;
    rest.hops = hop.node.hops;
    rest.excess_ns = rest_ns;
    Add(rest, {"", ""});
  }

  void AddPart(uint32_t row, Blame blame, int64_t excess_ns, const Hop& hop) {
    const auto k = static_cast<uint32_t>(blame);
    VerdictNode node;
    node.kind = NodeKind::kPart;
    node.blame = blame;
    node.parent = row;
    node.hops = hop.node.hops;
    node.ns = hop.clip.blame.ns[k];
    node.whole_ns = hop.whole.ns[k];
    node.normal_ns = hop.has_parts ? hop.normal.ns[k] : -1;
    node.excess_ns = excess_ns;
    Cause cause;
    cause.blame = blame;
    cause.blame_ns = node.ns;
    cause.excess_ns = excess_ns;
    FindEvidence(index_, hop.clip, &cause);
    node.by = cause.by;
    node.place_ns = cause.place_ns;
    node.stacks = cause.stacks;
    if (!cause.longest.empty()) node.at = hop.clip.segments[cause.longest[0]];
    std::vector<BlameSegment> segments;
    for (const BlameSegment& segment : hop.clip.segments) {
      if (segment.blame == blame) segments.push_back(segment);
    }
    node.for_request = ForWhom(segments);
    if (node.for_request == hop.who.request) node.for_request = kNone;
    auto close = BatchClose::kUnknown;
    if (node.at.batch != kNone) close = static_cast<BatchClose>(trace_.batches[node.at.batch].close);
    node.is_explained = IsExplained(hop.clip, node);
    // Work for a single member belongs to that member.
    const bool is_for_one = node.for_request != kNone && hop.who.batch != kNone && (kWork & BlameBit(blame)) != 0;
    const Advice advice = is_for_one ? AdviceFor(Blame::kExecutorBusy, close, Proof::kInOwnBatch)
                          : IsLargeWork(blame, hop)
                              ? AdviceFor(Blame::kExecutorBusy, close, Proof::kLargeMember)
                              : AdviceFor(blame, close, ProofOf(index_, hop.clip, cause, Verdict()));
    const uint32_t part = Add(node, advice);
    const size_t waiting = waiting_.size();
    if (IsLock(blame)) waiting_.push_back(node.at.thread);
    Follow(part, segments);
    waiting_.resize(waiting);
  }

  // Whether it is work of a member with a larger size than usual.
  bool IsLargeWork(Blame blame, const Hop& hop) const {
    return (kWork & BlameBit(blame)) != 0 && hop.node.kind == NodeKind::kRequest &&
           hop.node.blame == Blame::kExecutorBusy && !SizeText(trace_, hop.who.request).empty();
  }

  // Whether a part says why, and not only how long: as in verdicts (docs/reference/blame.md#unexplained).
  bool IsExplained(const RequestBlame& walk, const VerdictNode& node) const {
    blame::WaitArgs args;
    switch (node.blame) {
      case Blame::kGpuExcessUnknown:
        return false;
      case Blame::kGpuExecExpected:  // otherwise it may have been others' work
        return node.at.gpu != kNone && index_.gpu.UsualNs(node.at.gpu) >= 0;
      case Blame::kUntraced:
        return (IsPlaced(index_, walk, node.blame) && !IsInSpan(index_, walk, node.blame)) ||
               IsStill(index_, walk, node.blame);
      case Blame::kHostBlockedUnknown:
        if (IsPlaced(index_, walk, node.blame)) return true;
        return ReadWait(trace_, node.at.event, &args) ? args.kind != WaitKind::kDevice
                                                      : IsStill(index_, walk, node.blame);
      case Blame::kHostOncpuFramework:
        return MayAwaitGpu(index_, walk) == GpuDoubt::kNone &&
               MayBeMixed(index_, walk) == blame::MixedWork::Doubt::kNone;
      default:
        return true;
    }
  }

  // The request in whose context at least half of it was recorded.
  uint32_t ForWhom(const std::vector<BlameSegment>& segments) const {
    std::map<uint32_t, int64_t> times;
    for (const BlameSegment& segment : segments) {
      const uint32_t call = segment.gpu != kNone ? trace_.gpu.call[segment.gpu] : segment.call;
      uint32_t request = call != kNone ? index_.contexts.OfCall(call) : kNone;
      if (request == kNone && segment.event != kNone) request = index_.contexts.OfEvent(segment.event);
      times[blame::Outermost(trace_, index_.requests, request)] += segment.end_ns - segment.begin_ns;
    }
    const int64_t all_ns = LengthOf(segments);
    for (const auto& [request, ns] : times) {
      if (request != kNone && 2 * ns >= all_ns) return request;
    }
    return kNone;
  }

  // ---- The root

  bool MayBeRoot(uint32_t row) const {
    const NodeKind kind = tree_[row].kind;
    if (kind == NodeKind::kVictim || kind == NodeKind::kRest) return false;
    return std::none_of(tree_.begin(), tree_.end(), [&](const VerdictNode& node) { return node.parent == row; });
  }
  // The leaf, or the culprit above it: ordinary work without a known usual time need not be too long.
  uint32_t NamedBy(uint32_t leaf) const {
    const VerdictNode& node = tree_[leaf];
    const bool is_work = node.kind == NodeKind::kPart && node.hops > 0 && (kWork & BlameBit(node.blame)) != 0;
    return is_work && tree_[node.parent].normal_ns < 0 ? node.parent : leaf;
  }
  // Its own part, and the same part of others, are two.
  bool IsAlike(const VerdictNode& a, const VerdictNode& b) const {
    return a.kind == b.kind && a.blame == b.blame && (a.hops == 0) == (b.hops == 0);
  }

  void FindRoot(const std::vector<Cause>& causes) {
    const VerdictKind kind = verdict_.kind;
    const bool is_named =
        kind == VerdictKind::kCauses || kind == VerdictKind::kUniform || kind == VerdictKind::kUndetermined;
    Root& root = verdict_.root;
    if (kind == VerdictKind::kMoreWork && more_work_ != kNone) {
      root.node = more_work_;
      root.excess_ns = tree_[more_work_].excess_ns;
      return DescribeRoot();
    }
    if (!is_named || causes.empty()) return;
    const bool is_undetermined = kind == VerdictKind::kUndetermined && verdict_.level != Baseline::Level::kNone;
    std::vector<uint32_t> leaves;
    for (uint32_t row = 0; row < tree_.size(); ++row) {
      if (MayBeRoot(row)) leaves.push_back(row);
    }
    for (const uint32_t row : leaves) {
      int64_t ns = 0;
      uint32_t longest = row;
      for (const uint32_t other : leaves) {
        if (!IsAlike(tree_[NamedBy(row)], tree_[NamedBy(other)])) continue;
        ns += tree_[other].excess_ns;
        if (tree_[other].excess_ns > tree_[longest].excess_ns) longest = other;
      }
      if (ns <= root.excess_ns) continue;
      root.excess_ns = ns;
      root.node = NamedBy(longest);
    }
    const bool is_open = is_undetermined && root.node != kNone && root.node != more_work_;
    if (is_open && tree_[root.node].hops == 0) root = {};
    if (root.node != kNone) DescribeRoot();
  }

  void DescribeRoot() {
    Root& root = verdict_.root;
    const VerdictNode& node = tree_[root.node];
    root.kind = node.kind;
    root.blame = node.blame;
    root.hops = node.hops;
    root.share = total_ns_ > 0 ? static_cast<double>(root.excess_ns) / static_cast<double>(total_ns_) : 0;
    root.advice = root.kind == NodeKind::kCommon ? AdviceFor(VerdictKind::kUniform) : advice_[root.node];
    // Where most of it is of others alike, none of them is to blame alone.
    if (2 * node.excess_ns >= root.excess_ns) root.by = WhoseIs(root.node);
    FindRootConfidence();
    if (root.kind == NodeKind::kLoad) FindLoad();
  }

  Culprit WhoseIs(uint32_t row) const {
    const VerdictNode& node = tree_[row];
    if (node.for_request != kNone || node.by.IsKnown()) {
      Culprit by = node.by;
      if (node.for_request != kNone) by.request = node.for_request;
      return by;
    }
    for (uint32_t at = node.parent; at != kNone; at = tree_[at].parent) {
      const NodeKind kind = tree_[at].kind;
      if (kind == NodeKind::kVictim || kind == NodeKind::kPart) continue;
      Culprit by = tree_[at].by;
      if (by.batch != kNone && by.request == kNone) by.request = OnlyMember(trace_, by.batch);
      return by;
    }
    return {};
  }

  // Its cause's, less for each culprit without a known usual time.
  void FindRootConfidence() {
    Root& root = verdict_.root;
    bool is_known = true;
    const Cause* cause = nullptr;
    const double explained = tree_[root.node].is_explained ? 1 : kNotExplained;
    double factor = explained;
    for (uint32_t at = root.node; at != kNone; at = tree_[at].parent) {
      const VerdictNode& node = tree_[at];
      if (const auto found = cause_of_.find(at); found != cause_of_.end()) cause = found->second;
      const bool is_culprit = node.kind == NodeKind::kBatch || node.kind == NodeKind::kRequest ||
                              node.kind == NodeKind::kThread || node.kind == NodeKind::kGpuWork;
      // The work of a large member is compared by its own rule.
      const bool is_member =
          at == root.node && node.kind == NodeKind::kRequest && index_.PartBehind(tree_[node.parent].at) != nullptr;
      if (!is_culprit || node.normal_ns >= 0 || is_member) continue;
      is_known = false;
      factor *= kNormUnknown;
    }
    if (verdict_.level != Baseline::Level::kNone) {
      root.confidence = (cause != nullptr ? cause->confidence : std::min(root.share, 1.0)) * factor;
    } else {
      const double known = is_known && root.hops != 0 ? kOnlyCulpritKnown : kNothingKnown;
      root.confidence = std::min(root.share, 1.0) * known * explained;
    }
    root.confidence = facts::NearestProbability(root.confidence);
  }

  // The requests ahead in its queue when it came.
  void FindLoad() {
    const BlameSegment* waits = nullptr;
    for (const BlameSegment& segment : blame_.segments) {
      if (segment.handoff != kNone && segment.blame == tree_[verdict_.root.node].blame &&
          (waits == nullptr || segment.end_ns - segment.begin_ns > waits->end_ns - waits->begin_ns))
        waits = &segment;
    }
    if (waits == nullptr) return;
    const model::HandoffRow& own = trace_.handoffs[waits->handoff];
    Load& load = verdict_.load;
    load.queue = own.queue;
    int64_t first_ns = own.enqueue_ns;
    std::vector<uint32_t> threads;
    for (const model::HandoffRow& other : trace_.handoffs) {
      if (other.queue != own.queue) continue;
      if (other.to_thread != kNone) threads.push_back(other.to_thread);
      const bool is_ahead = other.enqueue_ns < own.enqueue_ns && (other.take_ns == 0 || other.take_ns > own.enqueue_ns);
      if (!is_ahead) continue;
      ++load.ahead;
      first_ns = std::min(first_ns, other.enqueue_ns);
    }
    load.within_ns = own.enqueue_ns - first_ns;
    std::sort(threads.begin(), threads.end());
    load.threads = static_cast<uint32_t>(std::unique(threads.begin(), threads.end()) - threads.begin());
  }

  const blame::Index& index_;
  const Trace& trace_;
  const RequestBlame& blame_;
  Verdict& verdict_;
  std::vector<VerdictNode>& tree_;
  std::vector<Advice> advice_;  // for each node
  std::map<uint32_t, const Cause*> cause_of_;
  blame::Norms norms_;
  std::map<uint32_t, RequestBlame> batches_;      // their walks
  std::vector<Who> above_;                        // the victim, and the culprits down to here
  std::vector<std::vector<uint32_t>> on_thread_;  // batches
  std::vector<uint32_t> waiting_;                 // threads of these that wait for locks
  int64_t total_ns_ = 0;
  uint32_t more_work_ = kNone;  // the node; kNone: there is none
};

}  // namespace

void FindTree(const blame::Index& index, const RequestBlame& blame, Verdict* verdict) {
  if (verdict->kind == VerdictKind::kNotUnusual) return;
  try {
    TreeMaker(index, blame, verdict).Make();
  } catch (const facts::Over&) {
    verdict->tree.clear();
    verdict->root = {};
    verdict->load = {};
  }
}

}  // namespace pitot::verdict

PITOT_NAMESPACE_BEGIN
namespace analyze {

const char* NodeKindName(NodeKind kind) noexcept {
  static constexpr const char* kNames[] = {"",       "victim",      "part",    "batch",   "request",
                                           "thread", "gpu_work",    "load",    "cycle",   "common",
                                           "rest",   "unexplained", "backlog", "several", "more_work"};
  const auto i = static_cast<uint8_t>(kind);
  return kNames[i < 15 ? i : 0];
}

}  // namespace analyze
PITOT_NAMESPACE_END
