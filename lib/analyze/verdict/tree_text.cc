// SPDX-License-Identifier: Apache-2.0
//
// The tree of blame in words, and the verdict in one sentence.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "analyze/blame/index_data.h"
#include "analyze/blame/token_gap.h"
#include "analyze/verdict/by_size.h"
#include "analyze/verdict/mechanism.h"
#include "analyze/verdict/place.h"
#include "analyze/verdict/proof.h"
#include "analyze/verdict/tree.h"
#include "analyze/verdict/verdict_words.h"
#include "base/add_up.h"
#include "base/columns.h"
#include "model/request_text.h"

namespace pitot::verdict {

using base::Duration;
using model::kNone;
using model::Trace;

namespace {

constexpr size_t kTreeNumber = 11;  // columns of an excess

class TreeTeller {
 public:
  TreeTeller(const BlameIndex& index, const RequestBlame& blame, const Verdict& verdict)
      : of_(index), index_(index.data()->index), trace_(index_.trace), blame_(blame), verdict_(verdict) {}

  std::string Sentence() const {
    const Verdict& v = verdict_;
    std::string text = Victim();
    if (IsForItsSize()) return text + BySize() + ".";
    switch (v.kind) {
      case VerdictKind::kNotUnusual:
        return text + ", not unusual among similar requests.";
      case VerdictKind::kMoreWork:
        return text + ": " + MoreWorkText(trace_, blame_, v) + ".";
      case VerdictKind::kDiffuse:
        return text + ": no single part stands out.";
      case VerdictKind::kUniform:
        return text + base::Format(": everything was %.0f %% slower, ", 100 * v.common_factor) + Duration(v.common_ns) +
               " in all.";
      case VerdictKind::kCauses:
      case VerdictKind::kUndetermined:
        break;
    }
    const bool is_chain = v.root.node != kNone && (v.root.hops > 0 || v.root.kind == NodeKind::kLoad);
    const bool is_member = is_chain && v.root.hops == 1 && IsMemberWork(v.tree[v.root.node]);
    if (is_chain && !is_member) return text + ": it " + MoreWorkFirst() + Chain() + ".";
    const std::vector<Cause>& parts = v.causes.empty() ? v.largest : v.causes;
    const Cause* cause = v.root.node != kNone ? CauseAbove(v.root.node) : nullptr;
    if (cause == nullptr && !parts.empty()) cause = &parts[0];
    if (cause != nullptr) text += ": it " + MoreWorkFirst() + SentenceText(of_, blame_, v, *cause) + InMorePieces();
    const bool is_undetermined = v.kind == VerdictKind::kUndetermined && v.level != Baseline::Level::kNone;
    return text + (is_undetermined ? "; the cause is undetermined: " + v.why_not : "") + ".";
  }

  std::vector<TreeLine> Lines() const {
    std::vector<TreeLine> lines;
    if (!verdict_.tree.empty()) AddChildren(0, base::RoundTo(verdict_.tree[0].excess_ns, kTenth), 0, &lines);
    return lines;
  }
  // Whether a cause is a wait for somebody.
  bool HasCulprits() const {
    return verdict_.root.kind == NodeKind::kLoad || std::any_of(verdict_.tree.begin(), verdict_.tree.end(),
                                                                [](const VerdictNode& node) { return node.hops > 0; });
  }

  std::string StageText() const {
    const VerdictStage& stage = verdict_.stage;
    if (stage.name == 0) return "";
    return QuotedName(trace_.strings[stage.name]) + " " + Duration(stage.ns) +
           (stage.usual_ns < 0 ? std::string() : ", usually " + Duration(stage.usual_ns));
  }

 private:
  // Why its own part is longer, if the same work was done in more pieces.
  std::string InMorePieces() const {
    const Verdict& v = verdict_;
    return v.more_of.empty() || v.more_ns != 0 || v.causes.empty()
               ? ""
               : base::Format(", with %.3g times the usual %s", v.more_factor, v.more_of.c_str());
  }
  // More work that explains more than the root does.
  std::string MoreWorkFirst() const {
    const Verdict& v = verdict_;
    if (v.kind != VerdictKind::kCauses || v.more_ns <= v.root.excess_ns) return "";
    return base::Format("had %.3g times the usual %s (", v.more_factor, v.more_of.c_str()) + Duration(v.more_ns) +
           ") and ";
  }
  // Whether its size explains more than the largest cause does.
  bool IsForItsSize() const { return verdict_.of_route.requests != 0 && verdict_.root.kind == NodeKind::kMoreWork; }
  // How much its size explains, and the largest cause of the rest.
  std::string BySize() const {
    const Verdict& v = verdict_;
    const std::string size = "usual for its size (" + SizeOfRouteText(trace_, v.of_route) + ")";
    if (v.kind == VerdictKind::kMoreWork) return ", " + size;
    const std::string text = ": " + Duration(v.typical_ns) + " are " + size + ", and ";
    if (v.kind == VerdictKind::kUniform)
      return text + base::Format("everything was %.0f %% slower", 100 * v.common_factor);
    const Cause& largest = v.causes.empty() ? v.largest[0] : v.causes[0];
    return text + "it " + SentenceText(of_, blame_, v, largest) + InMorePieces() +
           (v.kind == VerdictKind::kUndetermined ? "; the cause of that is undetermined: " + v.why_not : "");
  }
  // The victim and its time.
  std::string Victim() const {
    const model::RequestRow& row = trace_.requests[blame_.request];
    const std::string request =
        "request " + model::RequestName(trace_, row) + " (" + std::string(trace_.strings[row.route]) + ")";
    const bool is_token = blame_.token != kNone;
    std::string text = !is_token                                   ? "R" + request.substr(1)
                       : blame::IsFirstToken(trace_, blame_.token) ? "The first token of " + request
                                                                   : "A token of " + request;
    text += is_token ? " came after " : row.duration_ns == model::kOpen ? " has taken " : " took ";
    text += Duration(verdict_.latency_ns) + (!is_token && row.duration_ns == model::kOpen ? " so far" : "");
    if (verdict_.level == Baseline::Level::kNone) return text + ", and too few like it are known to say what is usual";
    const bool is_usual = verdict_.kind == VerdictKind::kNotUnusual || IsForItsSize();
    return is_usual ? text : text + " instead of " + Duration(verdict_.typical_ns);
  }

  // From the victim's own wait down to the root.
  std::string Chain() const {
    std::vector<uint32_t> rows;
    for (uint32_t at = verdict_.root.node; at != 0 && at != kNone; at = verdict_.tree[at].parent) rows.push_back(at);
    std::string text;
    for (size_t i = rows.size(); i-- > 0;) {
      const VerdictNode& node = verdict_.tree[rows[i]];
      const bool is_part = node.kind == NodeKind::kPart;
      text += text.empty() ? "" : is_part ? ", which " : node.kind == NodeKind::kLoad ? " " : ", ";
      text += is_part ? PartText(node, i == 0) : HopText(node);
    }
    // What a holder did with the lock, usual or not.
    const VerdictNode& root = verdict_.tree[verdict_.root.node];
    const bool is_lock = root.blame == Blame::kHostLock || root.blame == Blame::kHostGil;
    for (uint32_t child = verdict_.root.node + 1; is_lock && child < verdict_.tree.size(); ++child) {
      if (verdict_.tree[child].parent != verdict_.root.node) continue;
      if (verdict_.tree[child].kind == NodeKind::kPart) text += ", which " + PartText(verdict_.tree[child], true);
      break;
    }
    return verdict_.root.hops > 2 ? text + ": a convoy" : text;
  }

  // A predicate of the request or culprit above.
  std::string PartText(const VerdictNode& node, bool is_last) const {
    const std::string time = Duration(node.ns);
    const Took took{node.blame,
                    time,
                    IsCounted(index_, node.at),
                    HasRun(node.stacks),
                    MayAwaitDriver(index_, node.at),
                    index_.interpreter.IsStop(node.at.by.event)};
    std::string text;
    // The event of a wait for an interpreter's lock is whatever the thread was in: the lock has no name.
    const bool is_named = node.blame == Blame::kHostLock && node.at.event != kNone;
    const std::string lock = is_named ? ResourceName(trace_, node.at.event) : "";
    if (!lock.empty()) {
      text = "waited " + time + " for lock " + QuotedName(lock);
    } else if (node.hops > 0 && index_.PartBehind(node.at) != nullptr) {
      return "took " + time + " for the work of a large member";
    } else if (!is_last) {
      return Mechanism(took);
    } else if (node.hops == 0 && IsInSpan(index_, blame_, node.blame)) {
      return SpanText(index_, blame_);
    } else if (const blame::Stacks::Seen seen = index_.stacks.Of(node.at); seen.is_known()) {
      const std::string place = Places(index_).Text(node.at);
      text = (IsMostOf(node.place_ns, node.ns) ? MechanismSeenAt(took, place)
                                               : MechanismPartlyAt(took, place, Duration(node.place_ns))) +
             blame::Stacks::CountText(seen);
    } else if (node.blame == Blame::kUntraced && node.at.event == kNone && node.hops > 0 && !took.has_run) {
      text = "did something unrecorded for " + time + ", outside of all scopes " + Places(index_).Text(node.at);
    } else {
      const std::string place = Places(index_).Text(node.at);
      text = IsMostOf(node.place_ns, node.ns) ? MechanismAt(took, place)
                                              : MechanismPartlyAt(took, place, Duration(node.place_ns));
    }
    text += index_.stacks.PhraseOf(node.stacks) + SizeOfCopy(node);
    if (is_last) text += QuotaText(index_, blame_, node.blame, node.ns);
    if (is_last && node.hops > 0 && !node.is_explained) {
      text += node.blame == Blame::kHostBlockedUnknown ? ", and no recorded wait explains why"
              : node.blame == Blame::kHostOncpuFramework && took.is_counted
                  ? ", or in a wait that nothing recorded shows"
                  : "";
    }
    if (node.for_request != kNone) {
      const std::string size = SizeText(trace_, node.for_request);
      text += ", for " + RequestText(node.for_request) + (size.empty() ? "" : ": " + size);
    }
    const bool has_normal = is_last && node.hops > 0 && node.normal_ns >= 0 && node.normal_ns < node.whole_ns;
    if (!has_normal) return text;
    if (node.normal_ns == 0) return text + "; usually none";
    // The usual is of all of the culprit's time, of which the wait may have seen a part.
    const std::string whole = IsMostOf(node.ns, node.whole_ns) ? "" : Duration(node.whole_ns) + " in all, ";
    return text + "; " + whole + "usually " + Duration(node.normal_ns);
  }

  // " (667 MiB)", of a copy or set of memory.
  std::string SizeOfCopy(const VerdictNode& node) const {
    constexpr uint32_t kMoves = BlameBit(Blame::kH2d) | BlameBit(Blame::kD2h) | BlameBit(Blame::kD2dMemset);
    if ((kMoves & BlameBit(node.blame)) == 0 || node.at.gpu == kNone || trace_.gpu.bytes[node.at.gpu] == 0) return "";
    return " (" + base::Bytes(trace_.gpu.bytes[node.at.gpu]) + ")";
  }

  std::string RequestText(uint32_t request, const std::string& size = "") const {
    if (request == blame_.request) return "the request itself";
    const model::RequestRow& row = trace_.requests[request];
    return "request " + model::RequestName(trace_, row) + " (" + std::string(trace_.strings[row.route]) +
           OtherLabels(trace_, request, blame_.request) + (size.empty() ? "" : ", " + size) + ")";
  }

  // Whose time it was.
  std::string WhoText(const VerdictNode& node) const {
    const Culprit& by = node.by;
    if (by.batch != kNone)
      return "a batch of " + std::string(trace_.strings[trace_.batches[by.batch].executor]) + " (" +
             MembersText(trace_, by.batch) + ")";
    if (by.request != kNone) return RequestText(by.request, IsMemberWork(node) ? "" : SizeText(trace_, by.request));
    if (const std::string holder = index_.interpreter.Text(by.event); !holder.empty()) return holder;
    if (by.event == kNone) return ThreadName(trace_, by.thread);
    const std::string resource = ResourceName(trace_, by.event);
    return ThreadName(trace_, by.thread) + " in " +
           QuotedName(resource.empty() ? trace_.EventName(by.event) : std::string_view(resource));
  }

  std::string HopText(const VerdictNode& node) const {
    const bool is_lock = node.blame == Blame::kHostLock || node.blame == Blame::kHostGil;
    const std::string by = is_lock ? "held by " : "behind ";
    switch (node.kind) {
      case NodeKind::kBatch:
      case NodeKind::kThread:
        return by + WhoText(node);
      case NodeKind::kRequest:
        return by + WhoText(node) + MemberWork(node);
      case NodeKind::kGpuWork:
        return "behind GPU work of " + WhoText(node) +
               (node.by.gpu != kNone ? ": " + GpuWorkName(trace_, node.by.gpu) : "") +
               (node.is_explained ? "" : ", which waited for it in turn");
      case NodeKind::kCycle:
        return by + WhoText(node) + ", which waits for it in turn: a cycle";
      case NodeKind::kLoad:
        return LoadWords(node);
      case NodeKind::kSeveral:
        return "behind " + base::Plural(node.count, "other") + ", each a little longer than usual";
      case NodeKind::kBacklog:
        return "in the backlog left by " + WhoText(node);
      case NodeKind::kCommon:
        return "everything was slower";
      case NodeKind::kMoreWork:
        return verdict_.of_route.requests != 0 ? "its size: " + SizeOfRouteText(trace_, verdict_.of_route)
                                               : MoreWorkText(trace_, blame_, verdict_);
      case NodeKind::kUnexplained:
        return "nothing recorded says behind whom";
      default:
        return "the rest";
    }
  }

  bool IsMember(uint32_t request, uint32_t batch) const {
    const model::BatchRow& row = trace_.batches[batch];
    const auto first = trace_.members.begin() + row.first_member;
    return std::any_of(first, first + row.member_count, [&](auto& member) { return member.request == request; });
  }
  // Those that the victim waited for: batches, and members of its own batch.
  struct Others {
    std::set<uint32_t> batches, members;
  };
  Others OthersOf(const VerdictNode& node) const {
    Others others;
    for (const BlameSegment& segment : blame_.segments) {
      if (node.hops != 0 || segment.blame != node.blame) continue;
      const Culprit& by = segment.by;
      if (by.batch != kNone)
        others.batches.insert(by.batch);
      else if (by.request != kNone && segment.batch != kNone && IsMember(by.request, segment.batch) &&
               IsMember(blame_.request, segment.batch))
        others.members.insert(by.request);
    }
    return others;
  }

  std::string LoadWords(const VerdictNode& node) const {
    if (node.blame == Blame::kHostLock || node.blame == Blame::kHostGil)
      return std::string("because of load") + (node.is_explained ? ": nobody held it longer than usual" : "");
    const Others of = OthersOf(node);
    const uint32_t with = std::min(static_cast<uint32_t>(of.members.size()), node.count), ahead = node.count - with;
    const bool are_batches = of.batches.size() == ahead;
    const std::string those_ahead =
        are_batches ? std::to_string(ahead) + (ahead == 1 ? " batch" : " batches") : base::Plural(ahead, "other");
    const std::string lead = "because of load: ", others = with == 0 ? those_ahead : base::Plural(node.count, "other");
    const std::string where = with == 0 ? " ahead" : ahead == 0 ? " in its batch" : " ahead or in its batch";
    std::string text = lead + "none of the " + others + where + " took longer than usual";
    if (node.is_explained && node.count == 1) text = lead + "the one" + where + " took no longer than usual";
    if (!node.is_explained && ahead == 0) {
      text = lead + others + (with == 1 ? " was" : " were") + " with it in its batch";
    } else if (!node.is_explained) {
      text = lead + those_ahead + (ahead == 1 ? " was" : " were") + " ahead";
      if (with != 0)
        text += " and " + base::Plural(with, "other") + (with == 1 ? " was" : " were") + " with it in its batch";
    }
    if (node.hops == 0 && verdict_.load.ahead != 0) text += ", and " + QueueText(verdict_.load);
    return text + LargestOfLoad(node);
  }
  // Most of a wait may be behind one of them: ", and 4.94 ms of the wait were behind request cmpl-17 (/neighbour)".
  std::string LargestOfLoad(const VerdictNode& node) const {
    const bool is_root = verdict_.root.node != kNone && &node == &verdict_.tree[verdict_.root.node];
    if (!is_root || node.hops != 0 || node.count < 2) return "";
    for (const Cause& cause : verdict_.causes) {
      if (cause.blame != node.blame || cause.by.request == kNone || cause.by.request == blame_.request) continue;
      if (2 * cause.by_ns < cause.blame_ns) return "";
      return ", and " + Duration(cause.by_ns) + " of the wait were behind " + RequestText(cause.by.request);
    }
    return "";
  }
  // "34 requests that had come within 20.0 ms were ahead of it in queue "images" of 2 threads".
  std::string QueueText(const Load& load) const {
    return base::Plural(load.ahead, "request") + " that had come within " + Duration(load.within_ns) +
           (load.ahead == 1 ? " was" : " were") + " ahead of it in queue " + QuotedName(trace_.strings[load.queue]) +
           " of " + base::Plural(load.threads, "thread");
  }

  // Whether the node is the work of a member, which made its batch long.
  bool IsMemberWork(const VerdictNode& node) const {
    return node.kind == NodeKind::kRequest && index_.PartBehind(verdict_.tree[node.parent].at) != nullptr;
  }
  // ": 2,578 tokens in this step, typical 1"; "" if it is not a member's work, or not known to be large.
  std::string MemberWork(const VerdictNode& node) const {
    if (!IsMemberWork(node)) return "";
    const BlameSegment& at = verdict_.tree[node.parent].at;
    const blame::MixedWork::Part& part = *index_.PartBehind(at);
    const bool is_given = part.work > 0 && at.by.request == node.by.request;
    const std::string size =
        is_given ? index_.mixed_work.Text(trace_, at.batch, part) : SizeText(trace_, node.by.request);
    return size.empty() ? "" : ": " + size;
  }
  // The victim's part above a node.
  const Cause* CauseAbove(uint32_t row) const {
    while (verdict_.tree[row].parent != 0) row = verdict_.tree[row].parent;
    const std::vector<Cause>& causes = verdict_.causes.empty() ? verdict_.largest : verdict_.causes;
    for (const Cause& cause : causes) {
      if (cause.blame == verdict_.tree[row].blame) return &cause;
    }
    return nullptr;
  }

  std::string NodeText(const VerdictNode& node) const {
    if (node.kind == NodeKind::kPart) return PartText(node, true);
    const bool has_time = node.kind == NodeKind::kBatch || node.kind == NodeKind::kRequest ||
                          node.kind == NodeKind::kThread || node.kind == NodeKind::kGpuWork ||
                          node.kind == NodeKind::kBacklog || node.kind == NodeKind::kSeveral;
    if (!has_time || IsMemberWork(node)) return HopText(node);
    const bool is_lock = node.blame == Blame::kHostLock || node.blame == Blame::kHostGil;
    return HopText(node) + ": " + Duration(is_lock ? node.ns : node.whole_ns) +
           (node.normal_ns < 0 ? ", usual time not known"
                               : ", usually " + Duration(node.normal_ns) + (node.is_normal_kept ? " before" : ""));
  }

  // The children's numbers add up to the parent's as printed, too.
  void AddChildren(uint32_t row, int64_t tenths, size_t depth, std::vector<TreeLine>* lines) const {
    std::vector<uint32_t> children;
    std::vector<int64_t> excesses;
    for (uint32_t child = row + 1; child < verdict_.tree.size(); ++child) {
      if (verdict_.tree[child].parent != row) continue;
      children.push_back(child);
      excesses.push_back(verdict_.tree[child].excess_ns);
    }
    const std::vector<int64_t> rounded = base::RoundToAddUp(excesses, kTenth, tenths);
    for (size_t i = 0; i < children.size(); ++i) {
      if (rounded[i] == 0) continue;
      const VerdictNode& node = verdict_.tree[children[i]];
      const char* const category = node.kind == NodeKind::kPart ? BlameName(node.blame) : "";
      lines->push_back({children[i], depth, rounded[i], NodeText(node), category});
      AddChildren(children[i], rounded[i], depth + 1, lines);
    }
  }

  const BlameIndex& of_;
  const blame::Index& index_;
  const Trace& trace_;
  const RequestBlame& blame_;
  const Verdict& verdict_;
};

}  // namespace

std::string StageText(const BlameIndex& index, const RequestBlame& blame, const Verdict& verdict, size_t columns) {
  base::Lines lines(columns);
  const std::string stage = TreeTeller(index, blame, verdict).StageText();
  if (!stage.empty()) lines.AddWrapped(0, "stage  ", stage);
  return lines.text();
}

std::string TreeText(const BlameIndex& index, const RequestBlame& blame, const Verdict& verdict, size_t columns) {
  base::Lines lines(columns);
  const TreeTeller teller(index, blame, verdict);
  if (!teller.HasCulprits()) return "";
  const char* lead = "tree";
  for (const TreeLine& line : teller.Lines()) {
    lines.AddWrapped(
        0, lead + base::PadLeft(SignedTenths(line.tenths), kTreeNumber) + std::string(2 + 2 * line.depth, ' '),
        line.text + (*line.category == '\0' ? "" : std::string(" (") + line.category + ")"));
    lead = "    ";
  }
  return lines.text();
}

}  // namespace pitot::verdict

PITOT_NAMESPACE_BEGIN
namespace analyze {

std::vector<TreeLine> TreeLines(const BlameIndex& index, const RequestBlame& blame, const Verdict& verdict) {
  return verdict::TreeTeller(index, blame, verdict).Lines();
}

std::string VerdictSentence(const BlameIndex& index, const RequestBlame& blame, const Verdict& verdict) {
  if (index.data() == nullptr || blame.request >= index.data()->index.trace.requests.size()) return "";
  return verdict::TreeTeller(index, blame, verdict).Sentence();
}

}  // namespace analyze
PITOT_NAMESPACE_END
