// SPDX-License-Identifier: Apache-2.0
//
// Verdicts in words.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyze/blame/index_data.h"
#include "analyze/blame/token_gap.h"
#include "analyze/facts/clock_state.h"
#include "analyze/facts/quality.h"
#include "analyze/facts/subjects.h"
#include "analyze/verdict/by_size.h"
#include "analyze/verdict/gpu_evidence.h"
#include "analyze/verdict/mechanism.h"
#include "analyze/verdict/place.h"
#include "analyze/verdict/proof.h"
#include "analyze/verdict/tree.h"
#include "analyze/verdict/verdict_words.h"
#include "base/add_up.h"
#include "base/columns.h"
#include "base/quantile.h"
#include "model/host_language.h"
#include "model/kernel_name.h"
#include "model/lacking.h"
#include "model/ncu_command.h"
#include "model/parts.h"
#include "model/request_text.h"
#include "pitot/analyze/verdict.h"

namespace pitot::verdict {
namespace {

using base::Duration;
using base::Format;
using facts::ClockState;
using model::kNone;
using model::Trace;

constexpr size_t kBlameWidth = 23, kRestIndent = 5, kRestWidth = 50;

std::string Ms(int64_t ns) { return Format("%.1f", static_cast<double>(ns) * 1e-6); }
std::string Signed(int64_t ns) { return Format("%+.1f ms", static_cast<double>(ns) * 1e-6); }
constexpr int64_t kLeastTold = 50'000;  // less is 0.0 ms
constexpr int64_t kMostTimes = 10;      // as fast: more means only that the request did nothing else
// Three digits: ".005", "1".
std::string P(double p) {
  const std::string text = Format("%.3f", p);
  return p < 0.9995 ? text.substr(1) : "1";
}
// The p of the test that named it: "p=.005", "p=.005 of launches".
std::string P(const Cause& cause) {
  return cause.p_of_launches < cause.p ? "p=" + P(cause.p_of_launches) + " of launches" : "p=" + P(cause.p);
}

const char* TheLevel(Baseline::Level level) {
  return level == Baseline::Level::kCell    ? "the same route and size"
         : level == Baseline::Level::kRoute ? "the same route and any size"
                                            : "any route";
}

// Whether the server did the same work in more pieces: a request of the same size has no more work for that.
bool IsInMorePieces(const Verdict& v) {
  return v.kind == VerdictKind::kMoreWork &&
         ((v.more_of == "launches" && v.level == Baseline::Level::kCell) || v.more_of == kWaitsForGpu);
}

bool IsUsualForSize(const Verdict& v) { return v.kind == VerdictKind::kMoreWork && v.of_route.requests != 0; }

// The beginning of a line about the verdict; "": its cause.
std::string KindWords(const Verdict& v) {
  switch (v.kind) {
    case VerdictKind::kCauses:
      return "";
    case VerdictKind::kUniform:
      return Format("everything was %.0f %% slower", 100 * v.common_factor);
    case VerdictKind::kMoreWork:
      return IsInMorePieces(v) ? "more " + v.more_of : "more work";
    case VerdictKind::kDiffuse:
      return "no single part stands out";
    case VerdictKind::kNotUnusual:
      return "not unusual";
    case VerdictKind::kUndetermined:
      break;
  }
  return "undetermined";
}

// The cause above the root, if that is another's doing; kNone: it is not.
uint32_t FollowedCause(const Verdict& v) {
  if (v.root.node == kNone || v.root.hops == 0 || *v.root.advice.text == '\0') return kNone;
  uint32_t row = v.root.node;
  while (v.tree[row].parent != 0) row = v.tree[row].parent;
  for (uint32_t i = 0; i < v.causes.size(); ++i) {
    if (v.causes[i].blame == v.tree[row].blame) return i;
  }
  return kNone;
}

class Teller {
 public:
  Teller(const blame::Index& index, const RequestBlame& blame) : index_(index), trace_(index.trace), blame_(blame) {}

  std::string Evidence(const Cause& cause) const {
    const std::string by = By(cause, Duration(cause.by_ns));
    if (cause.longest.empty()) return by;
    const BlameSegment& longest = blame_.segments[cause.longest[0]];
    std::string where = Places(index_).Text(longest);
    if (!where.empty() && !IsMostThere(cause)) where += " (" + Duration(cause.place_ns) + " of it)";
    const std::string unrecorded = IsInSpan(index_, blame_, cause.blame) ? InSpan() : UnrecordedAt(cause);
    where += (where.empty() || unrecorded.empty() ? "" : ", ") + unrecorded + StacksOf(cause) + Holding(cause) +
             RemarksOn(cause);
    return by.empty() ? where : where.empty() ? by : by + ", " + where;
  }

  // What took the time, and where.
  std::string HowItTook(const Cause& cause, const std::string& time) const {
    if (cause.longest.empty()) return Mechanism({cause.blame, time});
    if (IsStill(index_, blame_, cause.blame))
      return "stood still for " + time + " with the whole process" + PlaceOfWork(cause);
    if (LargeMember(cause) != nullptr)
      return "waited " + time +
             (IsPrompt(cause) ? " while its iteration read a prompt" : " for a larger member of its batch") +
             PlaceOfWork(cause);
    return MechanismOf(cause, blame_.segments[cause.longest[0]], time);
  }

  // The member whose work lengthened the cause's batch; null: it is not such a wait.
  const blame::MixedWork::Part* LargeMember(const Cause& cause) const {
    return cause.longest.empty() || cause.blame != Blame::kExecutorBusy
               ? nullptr
               : index_.PartBehind(blame_.segments[cause.longest[0]]);
  }
  // Whether that member had put out no token yet.
  bool IsPrompt(const Cause& cause) const {
    const blame::MixedWork::Part* const part = LargeMember(cause);
    if (part == nullptr || part->work == 0) return part != nullptr;
    const model::RequestRow& row = trace_.requests[part->request];
    const int64_t begin_ns = trace_.batches[blame_.segments[cause.longest[0]].batch].begin_ns;
    return row.first_token_ns != 0 ? row.begin_ns + row.first_token_ns > begin_ns
                                   : trace_.requests[blame_.request].first_token_ns != 0;
  }

  // The predicate of a cause, with place and culprit. An undetermined verdict has named the missing wait already.
  std::string Sentence(const Cause& cause, bool is_undetermined) const {
    const std::string time = Duration(cause.blame_ns);
    std::string text = HowItTook(cause, time);
    text += StacksOf(cause) + Holding(cause);
    const bool is_explained =
        IsPlaced(index_, blame_, cause.blame) || IsNamedSleep(trace_, blame_) || IsStill(index_, blame_, cause.blame);
    if (cause.blame == Blame::kHostBlockedUnknown && !is_undetermined && !is_explained)
      text += ", and no recorded wait explains why";
    if (cause.blame == Blame::kHostOncpuFramework && MayAwaitGpu(index_, blame_) != GpuDoubt::kNone &&
        (cause.longest.empty() || IsCounted(index_, blame_.segments[cause.longest[0]])))
      text += ", or in a wait that nothing recorded shows";
    if (const std::string at = UnrecordedAt(cause); !at.empty()) text += ", " + at;
    text += QuotaText(index_, blame_, cause.blame, cause.blame_ns);
    if (const std::string by = By(cause, ""); !by.empty()) {
      const std::string part = Duration(cause.by_ns);
      text += ", " + (part == time ? "" : part + " of it ") + by;
    }
    return text;
  }

  std::string Line(const Verdict& v) const {
    const std::vector<Cause>& parts = v.causes.empty() ? v.largest : v.causes;
    const std::string kind = KindWords(v);
    if (IsUsualForSize(v)) return "usual for its size: " + SizeOfRouteText(trace_, v.of_route);
    if (v.kind == VerdictKind::kNotUnusual || parts.empty()) return kind;
    const Cause& first = parts[0];
    return kind + (kind.empty() ? "" : ": ") + Sentence(first, false) + RemarksOn(first) + " (" +
           BlameName(first.blame) + " " +
           (v.level != Baseline::Level::kNone ? Signed(first.excess_ns) + Format(", %.0f %%", 100 * first.share)
                                              : Ms(first.blame_ns) + " ms") +
           ")";
  }

  VerdictParts Tell(const Verdict& v, size_t columns) const {
    const auto text = [columns](auto&& tell) {
      base::Lines lines(columns);
      tell(&lines);
      return lines.text();
    };
    VerdictParts parts;
    parts.request = text([&](base::Lines* lines) { TellRequest(v, lines); });
    parts.compared = text([&](base::Lines* lines) { TellCompared(v, lines); });
    parts.remarks = text([&](base::Lines* lines) { TellRemarks(v, lines); });
    parts.why = text([&](base::Lines* lines) { TellWhy(v, columns, lines); });
    parts.advice = text([&](base::Lines* lines) { TellAdvice(v, lines); });
    parts.measure = text([&](base::Lines* lines) { TellMeasure(v, lines); });
    parts.sure = text([&](base::Lines* lines) { TellSureness(v, lines); });
    parts.blame = text([&](base::Lines* lines) { TellBlame(lines); });
    parts.quality = text([&](base::Lines* lines) { TellQuality(lines); });
    return parts;
  }

 private:
  // The requests or tokens of the baseline: "350 requests of the same route and size", for example.
  std::string ThoseCompared(const Verdict& v) const {
    if (blame_.token == kNone) return base::Plural(v.baseline_size, "request") + " of " + TheLevel(v.level);
    const bool is_first = blame::IsFirstToken(trace_, blame_.token);
    const std::string what = base::Plural(v.baseline_size, is_first ? "first token" : "token") +
                             (v.is_baseline_kept ? " before this trace, of " : " in this trace, of ");
    if (is_first || v.level == Baseline::Level::kProcess) return what + TheLevel(v.level);
    return what + "the same route, in iterations with " +
           (v.level == Baseline::Level::kCell ? "about as many members" : "any number of members");
  }
  void TellRequest(const Verdict& v, base::Lines* lines) const {
    const model::RequestRow& row = trace_.requests[blame_.request];
    std::string head = "request " + model::RequestName(trace_, row) + "  " + std::string(trace_.strings[row.route]) +
                       "  " + Ms(v.latency_ns) + " ms";
    if (blame_.token != kNone) {
      head += blame::IsFirstToken(trace_, blame_.token) ? " to its first token" : " between two tokens";
    } else if (row.duration_ns == model::kOpen) {
      head += " so far";
    }
    if (row.end_known && row.outcome != Outcome::kOk) head += ", " + model::EndText(trace_, row);
    if (v.level != Baseline::Level::kNone)
      head += Format(" (p%.3g; typical of ", 100 * v.percentile) + TypicalOf(v, blame_) + ": " + Ms(v.typical_ns) + ")";
    lines->AddWrapped(0, "", head);
  }
  void TellCompared(const Verdict& v, base::Lines* lines) const {
    if (v.level != Baseline::Level::kNone)
      lines->AddWrapped(0, "",
                        "compared with " + ThoseCompared(v) + Format("; a cause has p <= %s", P(v.alpha).c_str()));
    if (const std::string at = blame_.token != kNone ? blame::IterationText(index_, blame_.token) : ""; !at.empty())
      lines->AddWrapped(0, "", at);
  }
  void TellRemarks(const Verdict& v, base::Lines* lines) const {
    if (const std::string text = LikeText(v); !text.empty()) lines->AddWrapped(0, "              ", text);
    for (const std::string& text : {MeanwhileText(v), ProfiledText(trace_, blame_), CoarseText(v)}) {
      if (!text.empty()) lines->AddWrapped(0, "", text);
    }
  }
  void TellWhy(const Verdict& v, size_t columns, base::Lines* lines) const {
    const bool is_compared = v.level != Baseline::Level::kNone;
    TellKind(v, lines);
    const PrintedVerdict printed(v);
    for (size_t i = 0; i < v.causes.size(); ++i)
      TellCause(v, i + 1, v.causes[i], printed.causes[i], i == 0 && v.kind == VerdictKind::kCauses ? "why  " : "     ",
                lines);
    if (!v.causes.empty() && !v.more_of.empty()) {
      lines->AddWrapped(5, "",
                        v.more_ns == 0 ? Format("it had %.3g times the usual %s", v.more_factor, v.more_of.c_str())
                                       : "and " + MoreWorkText(trace_, blame_, v) + ", " + Signed(v.more_ns));
    }
    if (v.of_route.requests != 0 && v.kind != VerdictKind::kMoreWork)
      lines->AddWrapped(
          0, "     ",
          "before all that, " + Signed(v.of_route.more_ns) + " for its size: " + SizeOfRouteText(trace_, v.of_route));
    if (!v.causes.empty() || v.common_ns != 0) {
      const std::string rest = RestText(v), sum = "sum of excess " + Tenths(printed.latency - printed.typical) + " = " +
                                                  Tenths(printed.latency) + " - " + Tenths(printed.typical);
      if (rest.size() < kRestWidth && columns >= kRestIndent + kRestWidth + sum.size()) {
        lines->Add(kRestIndent, base::PadRight(rest, kRestWidth) + sum);
      } else {
        lines->AddWrapped(0, "     ", rest);
        lines->Add(kRestIndent, sum);
      }
    }
    if (v.causes.size() > 1) lines->Add(5, "fixing all of these would save at most " + Duration(v.joint_saving_ns));
    for (const Cause& part : v.largest)
      lines->AddWrapped(5,
                        base::PadRight(BlameName(part.blame), kBlameWidth) +
                            base::PadLeft(is_compared ? Signed(part.excess_ns) : Ms(part.blame_ns) + " ms", 10) + "  " +
                            (is_compared ? P(part) + "  " : ""),
                        Evidence(part));
  }

  std::string Executor(uint32_t batch) const { return std::string(trace_.strings[trace_.batches[batch].executor]); }

  static bool IsMostThere(const Cause& cause) { return IsMostOf(cause.place_ns, cause.blame_ns); }

  std::string MechanismOf(const Cause& cause, const BlameSegment& longest, const std::string& time) const {
    if (IsInSpan(index_, blame_, cause.blame)) return SpanText(index_, blame_);
    const std::string part = Duration(cause.place_ns);
    const bool is_lock = cause.blame == Blame::kHostLock || cause.blame == Blame::kHostGil;
    if (is_lock && index_.interpreter.Text(longest.by.event).empty()) {
      const std::string lock = longest.event != kNone ? ResourceName(trace_, longest.event) : "";
      if (!lock.empty() && IsMostThere(cause)) return "waited " + time + " for lock " + QuotedName(lock);
      if (!lock.empty()) return "waited " + time + " for locks, " + part + " of it for " + QuotedName(lock);
    }
    const std::string place = Places(index_).Text(longest);
    const Took took{cause.blame,
                    time,
                    IsCounted(index_, longest),
                    HasRun(cause.stacks),
                    MayAwaitDriver(index_, longest),
                    index_.interpreter.IsStop(longest.by.event)};
    if (IsMostThere(cause) && index_.stacks.Of(longest).is_known()) return MechanismSeenAt(took, place);
    return IsMostThere(cause) ? MechanismAt(took, place) : MechanismPartlyAt(took, place, part);
  }

  // ", in 14 of 15 stacks", if they show the place of the cause; for code with its function.
  std::string StacksOf(const Cause& cause) const {
    if (cause.longest.empty()) return "";
    if (cause.stacks.is_known()) return index_.stacks.PhraseOf(cause.stacks);
    return blame::Stacks::CountText(index_.stacks.Of(blame_.segments[cause.longest[0]]));
  }

  std::string PlaceOfWork(const Cause& cause) const {
    BlameSegment at = blame_.segments[cause.longest[0]];
    at.gpu = at.call = kNone;
    const std::string place = Places(index_).Text(at);
    return place.empty() ? "" : place[0] == '"' ? " in " + place : " " + place;
  }

  // The stage of unrecorded time, and the parts next to it: "between "decode" and "forward", in stage "model"". Or the
  // span as long as the request. "" of other time.
  std::string UnrecordedAt(const Cause& cause) const {
    if (cause.blame != Blame::kUntraced || cause.longest.empty()) return "";
    const size_t row = cause.longest[0];
    const BlameSegment& segment = blame_.segments[row];
    if (!PartName(segment).empty() || IsInSpan(index_, blame_, cause.blame)) return "";
    if (index_.request_spans.InUnrecorded(blame_).is_whole && !IsPlaced(index_, blame_, cause.blame))
      return InSpan() + ", which is as long as the request";
    std::string before, after;
    for (size_t i = row; i-- > 0 && before.empty();) before = PartName(blame_.segments[i]);
    for (size_t i = row + 1; i < blame_.segments.size() && after.empty(); ++i) after = PartName(blame_.segments[i]);
    std::string text = before.empty() && after.empty() ? ""
                       : before.empty()                ? "before " + after
                       : after.empty()                 ? "after " + before
                                                       : "between " + before + " and " + after;
    if (const std::string stages = StagesOf(segment); !stages.empty()) text += (text.empty() ? "" : ", ") + stages;
    const int64_t longest_ns = segment.end_ns - segment.begin_ns;
    return text.empty() || IsMostOf(longest_ns, cause.blame_ns) ? text : Duration(longest_ns) + " of it " + text;
  }
  // "100 ms of it in span "db query", usually 9.00 ms".
  std::string InSpan() const {
    const blame::SlowSpan span = index_.request_spans.InUnrecorded(blame_);
    return Duration(span.ns) + " of it " + SpanPlace(trace_, span);
  }
  // The recorded thing of a segment; "" if there is none.
  std::string PartName(const BlameSegment& segment) const {
    if (segment.handoff != kNone) return "queue " + QuotedName(trace_.strings[trace_.handoffs[segment.handoff].queue]);
    if (segment.gpu != kNone) return GpuWorkName(trace_, segment.gpu);
    if (segment.call != kNone) return std::string(trace_.strings[trace_.calls.name[segment.call]]);
    if (segment.event == kNone) return "";
    const std::string resource = ResourceName(trace_, segment.event);
    return QuotedName(resource.empty() ? trace_.EventName(segment.event) : std::string_view(resource));
  }
  // "in stage "model"", or its first and last stage.
  std::string StagesOf(const BlameSegment& segment) const {
    const model::Stage *first = nullptr, *last = nullptr;
    for (const model::Stage& stage : trace_.requests[blame_.request].stages) {
      if (stage.begin_ns <= segment.begin_ns) first = &stage;
      if (stage.begin_ns < segment.end_ns) last = &stage;
    }
    if (last == nullptr) return "";
    const std::string name = QuotedName(trace_.strings[last->name]);
    if (first == last) return "in stage " + name;
    return first == nullptr ? "up to stage " + name
                            : "from stage " + QuotedName(trace_.strings[first->name]) + " to " + name;
  }

  // The culprit, with a `time` unless that is "".
  std::string By(const Cause& cause, const std::string& time) const {
    const Culprit& by = cause.by;
    if (!by.IsKnown()) return "";
    const std::string holder = index_.interpreter.Text(by.event), took = time.empty() ? "" : " (" + time + ")";
    if (index_.interpreter.IsStop(by.event)) return holder.empty() ? "" : "and only " + holder + " ran" + took;
    if (!holder.empty()) return (cause.blame == Blame::kHostGc ? "by " : "held by ") + holder + took;
    std::string text = cause.blame == Blame::kHostLock || cause.blame == Blame::kHostGil ? "held by "
                       : cause.blame == Blame::kGpuContention                            ? "overlapped by "
                                                                                         : "behind ";
    std::string details;
    if (by.batch != kNone) {
      text += "a batch of " + Executor(by.batch);
      details = MembersText(trace_, by.batch);
    } else if (by.request != kNone) {
      const model::RequestRow& row = trace_.requests[by.request];
      text += by.request == blame_.request ? "itself" : "request " + model::RequestName(trace_, row);
      details = std::string(trace_.strings[row.route]) + OtherLabels(trace_, by.request, blame_.request);
      if (const std::string size = HowLarge(cause); !size.empty()) details += ", " + size;
      if (index_.interpreter.IsStep(by.event)) details += ", in " + std::string(trace_.EventName(by.event));
    } else if (by.event != kNone) {
      const std::string resource = ResourceName(trace_, by.event);
      text = "while " + ThreadName(trace_, by.thread) + " was in " +
             QuotedName(resource.empty() ? trace_.EventName(by.event) : std::string_view(resource));
    } else {
      const bool is_awaited = cause.blame == Blame::kGpuContention && by.gpu == kNone;
      text += (is_awaited ? "work that " : "") + ThreadName(trace_, by.thread) + (is_awaited ? " waited for" : "");
    }
    if (by.gpu != kNone && (by.batch & by.request) != kNone) details += ", " + GpuWorkName(trace_, by.gpu);
    if (!time.empty()) details += (details.empty() ? "" : ", ") + time;
    return details.empty() ? text : text + " (" + details + ")";
  }
  // How large the culprit's request is: by its work in the same batch if that is given, otherwise by its size.
  std::string HowLarge(const Cause& cause) const {
    const blame::MixedWork::Part* const part = LargeMember(cause);
    const bool is_given = part != nullptr && part->work > 0 &&
                          blame::Outermost(trace_, index_.requests, part->request) == cause.by.request;
    return is_given ? index_.mixed_work.Text(trace_, blame_.segments[cause.longest[0]].batch, *part)
                    : SizeText(trace_, cause.by.request);
  }
  // More about its longest stretch than place and culprit.
  std::string RemarksOn(const Cause& cause) const {
    if (cause.longest.empty()) return "";
    const BlameSegment& segment = blame_.segments[cause.longest[0]];
    const char* const unseen = IsUnseen(segment) ? "; nothing recorded shows whether it ran after that" : "";
    return unseen + Counted(segment) + FirstUse(segment) + GpuMeanwhile(cause);
  }

  // What the GPU did, by its hardware counters.
  std::string GpuMeanwhile(const Cause& cause) const {
    const std::optional<blame::GpuState> state = GpuStateOf(index_, blame_, cause);
    return state ? "; meanwhile " + state->Text() : "";
  }

  // The counter that proves it, and its circumstances. A lowered clock comes with both values, run-queue delay with the
  // CPU quota's throttling meanwhile. On-CPU time of a thread that neither slept nor was switched comes with the CPU
  // time the hypervisor took.
  std::string Counted(const BlameSegment& segment) const {
    if (segment.counter == kNone) return "";
    if (segment.blame == Blame::kGpuClock) return "; " + ClockState(trace_, {segment.begin_ns, segment.end_ns});
    const std::string_view name = model::Parts(trace_).Split(trace_.strings[trace_.counters[segment.counter].name]).own;
    const size_t colon = name.find(": ");
    std::string text = "; shown by its " + std::string(name.substr(colon == std::string_view::npos ? 0 : colon + 2));
    if (segment.blame != Blame::kHostRunqueue) return text;
    if (IsStolen(trace_, segment)) text += ": it neither slept nor was switched";
    if (const int64_t ns = index_.host.ThrottledNs(segment.thread, blame_.begin_ns, blame_.end_ns); ns > 0)
      text += ", the CPU quota throttled the process for " + Duration(ns) + " meanwhile";
    if (const int64_t ns = index_.host.StolenNs(segment.thread, blame_.begin_ns, blame_.end_ns); ns > 0)
      text += ", the hypervisor took " + Duration(ns) + " of the machine's CPUs around then";
    return text;
  }

  // "; first use of gemm".
  std::string FirstUse(const BlameSegment& segment) const {
    const std::string use = index_.first_uses.Of(segment);
    return use.empty() ? "" : "; " + use;
  }

  // ", holding lock "cache" while 6 other threads queued for it".
  std::string Holding(const Cause& cause) const {
    if (cause.longest.empty() || cause.blame == Blame::kHostLock || cause.blame == Blame::kHostGil) return "";
    const BlameSegment& segment = blame_.segments[cause.longest[0]];
    if (segment.thread == kNone) return "";
    const blame::LockQueue queue = index_.locks.Behind(segment.thread, segment.begin_ns, segment.end_ns);
    if (queue.threads == 0) return "";
    return ", holding lock " + QuotedName(trace_.strings[queue.resource]) + " while " +
           base::Plural(queue.threads, "other thread") + " queued for it";
  }

  void TellKind(const Verdict& v, base::Lines* lines) const {
    switch (v.kind) {
      case VerdictKind::kCauses:
        return;
      case VerdictKind::kUniform:
        lines->AddWrapped(0, "why  ",
                          Format("everything was %.0f %% slower: %s of the excess", 100 * v.common_factor,
                                 Duration(v.common_ns).c_str()));
        if (!v.clocks.empty()) lines->AddWrapped(0, "     ", v.clocks);
        return;
      case VerdictKind::kMoreWork:
        if (IsUsualForSize(v))
          return lines->AddWrapped(0, "why  ",
                                   "usual for its size: " + SizeOfRouteText(trace_, v.of_route) +
                                       (v.largest.empty() ? "" : ". The parts longer than usual for it:"));
        return lines->AddWrapped(
            0, "why  ", MoreWorkText(trace_, blame_, v) + (v.largest.empty() ? "" : ". The parts with growth:"));
      case VerdictKind::kDiffuse:
        return lines->AddWrapped(0, "why  ", "diffuse: no single part is outside its normal range. The largest:");
      case VerdictKind::kNotUnusual:
        return lines->AddWrapped(0, "why  ", "not unusual among similar requests");
      case VerdictKind::kUndetermined:
        break;
    }
    const bool has_largest = v.causes.empty() && !v.largest.empty();
    lines->AddWrapped(0, "why  ", "undetermined: " + v.why_not + (has_largest ? ". The largest parts:" : ""));
  }

  void TellCause(const Verdict& v, size_t number, const Cause& cause, int64_t excess_tenths, const std::string& lead,
                 base::Lines* lines) const {
    lines->AddWrapped(0, lead + std::to_string(number) + ") ",
                      Sentence(cause, v.kind == VerdictKind::kUndetermined) + RemarksOn(cause));
    lines->AddWrapped(8, "",
                      BlameName(cause.blame) + LockedThread(cause) + " " + SignedTenths(excess_tenths) +
                          Format(" (%.0f %%), ", 100 * cause.share) + P(cause) + ", " + ConfidenceText(cause) + "; " +
                          SavingText(v, cause));
    if (const std::string text = ContradictionText(cause); !text.empty()) lines->AddWrapped(8, "", text);
  }

  // " on http-1", the waiting thread of a lock. Its sentence names the holder alone.
  std::string LockedThread(const Cause& cause) const {
    const bool is_lock = cause.blame == Blame::kHostLock || cause.blame == Blame::kHostGil;
    if (!is_lock || cause.longest.empty()) return "";
    const uint32_t thread = blame_.segments[cause.longest[0]].thread;
    return thread == kNone ? "" : " on " + ThreadName(trace_, thread);
  }

  void TellAdvice(const Verdict& v, base::Lines* lines) const {
    const char* lead = "what to do  ";
    for (const char* const advice : Advices(v)) {
      lines->AddWrapped(0, lead, model::InHostLanguage(trace_, advice));
      lead = "            ";
    }
  }

  void TellMeasure(const Verdict& v, base::Lines* lines) const {
    for (const Cause& cause : v.causes) {
      const model::StringId kernel = KernelOf(trace_, blame_, cause);
      if (kernel == 0) continue;
      lines->AddCommand(0, "measure it  ", NcuCommand(trace_, kernel));
      return;
    }
  }

  void TellSureness(const Verdict& v, base::Lines* lines) const {
    if (const std::string text = SureText(v); !text.empty()) lines->AddWrapped(0, "how sure    ", text);
  }

  // The largest parts first; they add up.
  void TellBlame(base::Lines* lines) const {
    std::vector<uint32_t> parts;
    for (uint32_t k = 0; k < kBlames; ++k) {
      if (blame_.blame.ns[k] != 0) parts.push_back(k);
    }
    std::stable_sort(parts.begin(), parts.end(),
                     [&](uint32_t a, uint32_t b) { return blame_.blame.ns[a] > blame_.blame.ns[b]; });
    constexpr int64_t kUs = 1000;
    std::vector<int64_t> lengths_ns;
    for (const uint32_t k : parts) lengths_ns.push_back(blame_.blame.ns[k]);
    const int64_t total_us = base::RoundTo(blame_.blame.Total(), kUs);
    const std::vector<int64_t> lengths_us = base::RoundToAddUp(lengths_ns, kUs, total_us);
    std::string text;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (!text.empty()) text += ", ";
      text += BlameName(static_cast<Blame>(parts[i])) + Format(" %.3f", static_cast<double>(lengths_us[i]) * 1e-3);
    }
    lines->AddWrapped(0, "all of it   ",
                      text + Format(" ms; the sum is %.3f ms", static_cast<double>(total_us) * 1e-3));
  }

  void TellQuality(base::Lines* lines) const {
    std::string text;
    if (blame_.losses != 0)
      text += "events or GPU records were lost in " + base::Plural(blame_.losses, "part") + " of its time; ";
    if (blame_.clamps != 0)
      text +=
          base::Plural(blame_.clamps, "timestamp") + " contradicted another, by " + Duration(blame_.clamped_ns) + "; ";
    if (text.empty()) text = LostElsewhere() + ", no contradictions; ";
    lines->AddWrapped(0, "evidence    ", text + base::Plural(blame_.segments.size(), "segment"));
  }

  // "nothing lost", or where instead if the request lost nothing.
  std::string LostElsewhere() const {
    if (model::AreLossesUnknown(trace_)) return model::kLossesUnknown;
    const auto parts = static_cast<uint64_t>(
        std::count_if(trace_.losses.begin(), trace_.losses.end(),
                      [](const model::LossRow& loss) { return facts::AreEventsLost(loss.reason); }) +
        static_cast<int64_t>(trace_.gpu_losses.size()));
    return parts == 0 ? "nothing lost"
                      : "nothing lost in its time (but in " + base::Plural(parts, "other part") + " of the window)";
  }

  const blame::Index& index_;
  const Trace& trace_;
  const RequestBlame& blame_;
};

}  // namespace

PrintedVerdict::PrintedVerdict(const Verdict& v)
    : latency(base::RoundTo(v.latency_ns, kTenth)), typical(base::RoundTo(v.typical_ns, kTenth)) {
  std::vector<int64_t> parts;
  for (const Cause& cause : v.causes) parts.push_back(cause.excess_ns);
  parts.push_back(v.common_ns);
  parts.push_back(v.rest_ns);
  const int64_t sum_ns = std::accumulate(parts.begin(), parts.end(), int64_t{0});
  const bool adds_up = sum_ns == v.latency_ns - v.typical_ns;
  causes = base::RoundToAddUp(parts, kTenth, adds_up ? latency - typical : base::RoundTo(sum_ns, kTenth));
  rest = causes.back();
  common = causes[v.causes.size()];
  causes.resize(v.causes.size());
}

std::string Tenths(int64_t tenths) { return Format("%.1f", static_cast<double>(tenths) * 0.1); }
std::string SignedTenths(int64_t tenths) { return Format("%+.1f ms", static_cast<double>(tenths) * 0.1); }

std::string TypicalOf(const Verdict& v, const RequestBlame& blame) {
  if (v.level == Baseline::Level::kProcess) return "any route";
  if (blame.token != kNone) return "this route";
  return v.level == Baseline::Level::kCell ? "this route and size" : "this route, any size";
}

std::string RestText(const Verdict& v) {
  const int64_t others_ns = v.rest_ns - v.unnamed_ns - v.more_ns;
  const bool are_others_shorter = others_ns <= -kLeastTold;
  const PrintedVerdict printed(v);
  const std::string rest = SignedTenths(printed.rest);
  std::vector<int64_t> parts;
  std::vector<std::string> words;
  const auto add = [&](int64_t ns, const std::string& what) { parts.push_back(ns), words.push_back(what); };
  if (v.unnamed != 0) add(v.unnamed_ns, " of " + base::Plural(v.unnamed, "lesser cause"));
  if (v.more_ns != 0) add(v.more_ns, " of more work");
  if (parts.empty() && are_others_shorter) return "offset by " + rest + " of parts shorter than usual";
  if (parts.empty()) return "rest " + rest + " within the normal range";
  if (are_others_shorter) add(others_ns, " of parts shorter than usual");
  if (others_ns >= kLeastTold) add(others_ns, " within the normal range");
  const std::vector<int64_t> tenths = base::RoundToAddUp(parts, kTenth, printed.rest);
  std::string text = "rest " + rest;
  for (size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? ": " : ", ") + SignedTenths(tenths[i]) + words[i];
  return text;
}

std::string SavingText(const Verdict& v, const Cause& cause) {
  const std::string text = "fixing it would save at most " + Duration(cause.saving_ns);
  if (cause.without_ns <= 0 || 4 * (v.latency_ns - cause.saving_ns) < 5 * cause.without_ns ||
      v.latency_ns / kMostTimes > cause.without_ns)
    return text;
  return text + Format("; if it took no time at all, the request would be at most %.1f times as fast",
                       static_cast<double>(v.latency_ns) / static_cast<double>(cause.without_ns));
}

std::string MoreWorkText(const Trace& trace, const RequestBlame& blame, const Verdict& v) {
  if (IsInMorePieces(v))
    return Format("the same work with %.3g times the usual %s, and no part stands out", v.more_factor,
                  v.more_of.c_str());
  // Its own size against those of the route; a token's work is another, and its like may be those of its size.
  const bool is_of_route = v.more_of == "size" && blame.token == kNone && v.level != Baseline::Level::kCell;
  const std::string size = is_of_route ? SizeText(trace, blame.request) : "";
  return Format("more work, not slower: %.3g times the usual %s", v.more_factor, v.more_of.c_str()) +
         (size.empty() ? "" : " (" + size + ")");
}

std::string LikeText(const Verdict& v) {
  if (v.like == 0) return "";
  return "these were slow, too: half of all " + base::Plural(v.like, "request") +
         " of its route and size in the trace took at most " + Ms(v.like_median_ns) + " ms";
}

std::string MeanwhileText(const Verdict& v) {
  if (v.meanwhile == 0) return "";
  return base::Count(v.meanwhile_slow) + " of the " + base::Plural(v.meanwhile, "similar request") +
         " in flight were slow, too, each with at least half of this excess: look at that moment, not only at this "
         "request";
}

std::string CoarseText(const Verdict& v) {
  return v.is_coarse ? "recorded at different depths: time on GPUs counts as the code waiting for them, "
                       "host_oncpu_framework"
                     : "";
}

ProfiledTime FindProfiles(const Trace& trace, const RequestBlame& blame) {
  ProfiledTime found{0, INT64_MAX, 0};
  const int64_t arrival_ns = trace.requests[blame.request].begin_ns;
  for (const model::OverheadRow& row : trace.overheads) {
    const int64_t end_ns = row.begin_ns + row.duration_ns;
    if (row.begin_ns >= blame.end_ns || end_ns <= blame.begin_ns || !facts::IsProfiling(trace.strings[row.name]))
      continue;
    ++found.runs;
    found.begin_ns = std::min(found.begin_ns, std::max(row.begin_ns, blame.begin_ns) - arrival_ns);
    found.end_ns = std::max(found.end_ns, std::min(end_ns, blame.end_ns) - arrival_ns);
  }
  return found;
}

std::string ProfiledText(const Trace& trace, const RequestBlame& blame) {
  const ProfiledTime profiled = FindProfiles(trace, blame);
  if (profiled.runs == 0) return "";
  return "kernels were being profiled from " + Ms(profiled.begin_ns) + " to " + Ms(profiled.end_ns) +
         " ms of its time" + (profiled.runs > 1 ? Format(", in %u runs", profiled.runs) : "") +
         ": launches took longer meanwhile";
}

std::string ConfidenceText(const Cause& cause) {
  return Format("confidence %.2f", cause.confidence) +
         (*cause.unsure == '\0' ? "" : std::string(" (") + cause.unsure + ")");
}

model::StringId KernelOf(const Trace& trace, const RequestBlame& blame, const Cause& cause) {
  constexpr uint32_t kOfKernels = BlameBit(Blame::kGpuExecExpected) | BlameBit(Blame::kGpuExcessUnknown) |
                                  BlameBit(Blame::kGpuContention) | BlameBit(Blame::kGpuQueueWaitOthers);
  if ((BlameBit(cause.blame) & kOfKernels) == 0) return 0;
  const uint32_t own = cause.longest.empty() ? kNone : blame.segments[cause.longest[0]].gpu;
  for (const uint32_t row : {cause.by.gpu, own}) {
    if (row != kNone && CanNcuMeasure(trace, row)) return trace.gpu.name[row];
  }
  return 0;
}

std::vector<const char*> Advices(const Verdict& v) {
  std::vector<const char*> advices;
  if (*v.advice.text != '\0') advices.push_back(v.advice.text);
  std::string_view last;
  const uint32_t followed = FollowedCause(v);
  if (followed != kNone) {
    advices.push_back(v.root.advice.text);
    last = v.root.advice.code;
  }
  for (uint32_t i = 0; i < v.causes.size(); ++i) {
    const Cause& cause = v.causes[i];
    if (i == followed) continue;  // the root's advice is in its place
    if (last != cause.advice.code) advices.push_back(cause.advice.text);
    last = cause.advice.code;
  }
  return advices;
}

std::string SureText(const Verdict& v) {
  // How sure a part is called what it is says nothing of an undetermined cause.
  if (v.causes.empty() || v.kind == VerdictKind::kUndetermined) return "";
  const uint32_t followed = FollowedCause(v);
  const Cause& cause = v.causes[followed != kNone ? followed : 0];
  std::string text = ConfidenceText(cause);
  if (followed != kNone && v.root.confidence < cause.confidence)
    text = Format("confidence %.2f of the root, %.2f of the wait", v.root.confidence, cause.confidence);
  if (const std::string but = ContradictionText(cause); !but.empty()) text += ", " + but;
  return text + "; " + SavingText(v, cause);
}

std::string ContradictionText(const Cause& cause) {
  if (*cause.contradicted_by == '\0') return "";
  return std::string("but contradicted by ") + cause.contradicted_by + ": " + cause.contradiction;
}

VerdictParts PartsOf(const BlameIndex& index, const RequestBlame& blame, const Verdict& verdict, size_t columns) {
  return Teller(index.data()->index, blame).Tell(verdict, columns);
}

std::string SentenceText(const BlameIndex& index, const RequestBlame& blame, const Verdict& verdict,
                         const Cause& cause) {
  if (index.data() == nullptr) return "";
  return Teller(index.data()->index, blame).Sentence(cause, verdict.kind == VerdictKind::kUndetermined);
}

}  // namespace pitot::verdict

PITOT_NAMESPACE_BEGIN
namespace analyze {

std::string EvidenceText(const BlameIndex& index, const RequestBlame& blame, const Cause& cause) {
  if (index.data() == nullptr) return "";
  return verdict::Teller(index.data()->index, blame).Evidence(cause);
}

std::string VerdictLine(const BlameIndex& index, const RequestBlame& blame, const Verdict& verdict) {
  if (index.data() == nullptr || blame.request >= index.data()->index.trace.requests.size()) return "";
  return verdict::Teller(index.data()->index, blame).Line(verdict);
}

std::string VerdictText(const BlameIndex& index, const RequestBlame& blame, const Verdict& verdict, size_t columns) {
  if (index.data() == nullptr || blame.request >= index.data()->index.trace.requests.size()) return "";
  const verdict::VerdictParts parts = verdict::PartsOf(index, blame, verdict, columns);
  base::Lines sentence(columns);
  sentence.AddWrapped(0, "", VerdictSentence(index, blame, verdict));
  return sentence.text() + verdict::StageText(index, blame, verdict, columns) +
         verdict::TreeText(index, blame, verdict, columns) + "\n" + parts.request + parts.compared + parts.remarks +
         "\n" + parts.why + "\n" + parts.advice + parts.measure + parts.blame + parts.quality;
}

}  // namespace analyze
PITOT_NAMESPACE_END
