// SPDX-License-Identifier: Apache-2.0
#include "analyze/judge/neighbours.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "analyze/blame/index_data.h"
#include "analyze/verdict/place.h"
#include "analyze/verdict/tree.h"
#include "model/request_text.h"
#include "pitot/model/index.h"

namespace pitot::judge {
namespace {

using base::Duration;
using model::Interval;
using model::kNone;
using model::Trace;

constexpr size_t kMostMembers = 6, kMostCulprits = 4, kMostThreads = 4, kMostNamed = 3, kMostSizes = 2;

// Draws over the request's time.
class Neighbours {
 public:
  explicit Neighbours(const Judgement& of)
      : index_(of.index.data()->index), trace_(index_.trace), of_(of), time_{of.blame.begin_ns, of.blame.end_ns} {}

  Lanes Members() const {
    Lanes drawn;
    const uint32_t batch = Step();
    if (batch == kNone) return drawn;
    const model::BatchRow& row = trace_.batches[batch];
    const std::string executor(trace_.strings[row.executor]);
    const bool is_own = std::any_of(
        trace_.members.begin() + row.first_member, trace_.members.begin() + row.first_member + row.member_count,
        [&](const model::MemberRow& member) { return member.request == of_.blame.request; });
    drawn.title = (is_own ? "Its batch on " : "The batch ahead of it on ") + executor + ": " +
                  base::Plural(row.member_count, "member") + ", " + Duration(trace_.BatchEnd(row) - row.begin_ns);
    drawn.lanes.push_back(StepsOf(row.executor, batch));
    std::vector<uint32_t> members;
    for (uint32_t m = row.first_member; m < row.first_member + row.member_count; ++m) members.push_back(m);
    const auto rank = [&](uint32_t m) {
      return IsGuilty(m) ? 0 : trace_.members[m].request == of_.blame.request ? 1 : 2;
    };
    std::stable_sort(members.begin(), members.end(), [&](uint32_t a, uint32_t b) {
      return rank(a) != rank(b) ? rank(a) < rank(b) : trace_.members[a].work > trace_.members[b].work;
    });
    for (size_t i = 0; i < members.size() && i < kMostMembers; ++i)
      drawn.lanes.push_back(MemberLane(members[i], row, rank(members[i])));
    if (members.size() > kMostMembers)
      drawn.more = "and " + base::Plural(members.size() - kMostMembers, "other member");
    return drawn;
  }

  Lanes Culprits() const {
    Lanes drawn;
    std::set<std::pair<uint32_t, uint32_t>> known;  // of batch or request, and thread
    size_t left_out = 0;
    for (const TreeLine& line : TreeLines(of_.index, of_.blame, of_.verdict)) {
      const VerdictNode& node = of_.verdict.tree[line.node];
      if (!IsCulprit(node.kind) || !node.by.IsKnown() || node.by.request == of_.blame.request) continue;
      const uint32_t who = node.by.batch != kNone ? node.by.batch : node.by.request;
      if (!known.insert({who, who == kNone ? node.by.thread : kNone}).second) continue;
      if (drawn.lanes.size() == kMostCulprits)
        ++left_out;
      else
        drawn.lanes.push_back(CulpritLane(node, line.text));
    }
    if (!drawn.lanes.empty()) drawn.title = "What the others did meanwhile";
    if (left_out != 0) drawn.more = "and " + base::Plural(left_out, "other");
    return drawn;
  }

 private:
  static bool IsCulprit(NodeKind kind) {
    return kind == NodeKind::kBatch || kind == NodeKind::kRequest || kind == NodeKind::kThread ||
           kind == NodeKind::kGpuWork || kind == NodeKind::kCycle || kind == NodeKind::kBacklog;
  }
  Interval Clip(int64_t begin_ns, int64_t end_ns) const {
    return {std::max(begin_ns, time_.begin_ns), std::min(end_ns, time_.end_ns)};
  }
  std::string RequestName(uint32_t request) const {
    const model::RequestRow& row = trace_.requests[request];
    return "request " + model::RequestName(trace_, row) + " (" + std::string(trace_.strings[row.route]) + ")";
  }

  // The part of the verdict that the root is in, otherwise the largest.
  Blame Largest() const {
    const Verdict& v = of_.verdict;
    if (v.root.node != kNone && v.root.node != 0 && v.root.kind != NodeKind::kMoreWork) {
      uint32_t row = v.root.node;
      while (v.tree[row].parent != 0) row = v.tree[row].parent;
      return v.tree[row].blame;
    }
    const std::vector<Cause>& causes = v.causes.empty() ? v.largest : v.causes;
    return causes.empty() ? Blame::kUntraced : causes[0].blame;
  }
  // The batch in which most time of that part was: the one it waited for, otherwise its own.
  uint32_t Step() const {
    std::map<uint32_t, int64_t> times;
    const Blame largest = Largest();
    for (const BlameSegment& segment : of_.blame.segments) {
      const uint32_t batch = segment.by.batch != kNone ? segment.by.batch : segment.batch;
      if (segment.blame == largest && batch != kNone && IsThen(trace_.batches[batch]))
        times[batch] += segment.end_ns - segment.begin_ns;
    }
    const auto most =
        std::max_element(times.begin(), times.end(), [](auto& a, auto& b) { return a.second < b.second; });
    return most == times.end() ? kNone : most->first;
  }
  bool IsThen(const model::BatchRow& row) const {
    return row.begin_ns < time_.end_ns && trace_.BatchEnd(row) > time_.begin_ns;
  }

  // Whether the verdict says why the culprit took so long.
  bool IsExplained() const {
    const Verdict& v = of_.verdict;
    return v.kind == VerdictKind::kCauses && v.root.node != kNone && v.tree[v.root.node].is_explained;
  }
  // Whether the tree blames the member's request.
  bool IsGuilty(uint32_t member) const {
    const uint32_t request = trace_.members[member].request;
    if (request == of_.blame.request) return false;
    const Culprit& by = of_.verdict.root.by;
    if (by.request == request) return true;
    const uint32_t batch = trace_.members[member].batch;
    if (by.batch == batch && trace_.batches[batch].member_count == 1) return true;
    return std::any_of(of_.verdict.tree.begin(), of_.verdict.tree.end(), [&](const VerdictNode& node) {
      return node.kind == NodeKind::kRequest && node.by.request == request && node.excess_ns > 0;
    });
  }

  // Batches of the executor; they may overlap.
  Lane StepsOf(model::StringId executor, uint32_t step) const {
    Bars others(time_.begin_ns, time_.end_ns), own(time_.begin_ns, time_.end_ns);
    size_t count = 0;
    for (uint32_t batch = 0; batch < trace_.batches.size(); ++batch) {
      const model::BatchRow& row = trace_.batches[batch];
      if (row.executor != executor || !IsThen(row)) continue;
      ++count;
      const Interval part = Clip(row.begin_ns, trace_.BatchEnd(row));
      const char* const style = batch == step ? "bad" : count % 2 != 0 ? "stay" : "other";
      (batch == step ? own : others)
          .Add(part.begin_ns, part.end_ns, style,
               "a batch with " + base::Plural(row.member_count, "member") + ", " +
                   Duration(trace_.BatchEnd(row) - row.begin_ns));
    }
    return {std::string(trace_.strings[executor]) + ": " +
                (count == 1 ? "this batch" : "this batch, and " + base::Plural(count - 1, "other")),
            "", others.Svg(20) + own.Svg(20)};
  }

  Lane MemberLane(uint32_t member, const model::BatchRow& batch, int rank) const {
    const model::MemberRow& row = trace_.members[member];
    const model::RequestRow& request = trace_.requests[row.request];
    Bars life(time_.begin_ns, time_.end_ns), stay(time_.begin_ns, time_.end_ns);
    const Interval whole = Clip(request.begin_ns, trace_.RequestEnd(request));
    if (whole.begin_ns < whole.end_ns) life.Add(whole.begin_ns, whole.end_ns, "other", "in the server");
    const int64_t leave_ns = row.leave_ns != 0 ? row.leave_ns : trace_.BatchEnd(batch);
    const Interval part = Clip(std::max(row.join_ns, batch.begin_ns), leave_ns);
    if (part.begin_ns < part.end_ns)
      stay.Add(part.begin_ns, part.end_ns,
               rank == 0   ? "bad"
               : rank == 1 ? "mine"
                           : "stay",
               "in the batch for " + Duration(part.end_ns - part.begin_ns));
    std::string caption = RequestName(row.request);
    if (const std::string work = WorkOf(row, batch); !work.empty()) caption += ": " + work;
    if (rank == 0) caption = (IsExplained() ? "whose fault: " : "in the way: ") + caption;
    if (rank == 1) caption = "the request itself: " + caption;
    return {caption, rank == 0 ? "guilty" : rank == 1 ? "victim" : "", life.Svg(20) + stay.Svg(20)};
  }

  // "reads its prompt, 2578 prompt_tokens"; "512 tokens in this batch" if the executor said it.
  std::string WorkOf(const model::MemberRow& member, const model::BatchRow& batch) const {
    if (member.work > 0)
      return base::Number(member.work) + " " + index_.mixed_work.UnitOf(batch.executor) + " in this batch";
    std::string text = verdict::SizeText(trace_, member.request);
    const model::RequestRow& request = trace_.requests[member.request];
    const bool is_large = !text.empty();
    for (size_t i = 0; !is_large && i < request.sizes.size() && i < kMostSizes; ++i)
      text += (i == 0 ? "" : ", ") + base::Number(request.sizes[i].value) + " " +
              std::string(trace_.strings[request.sizes[i].name]);
    if (trace_.tokens.empty()) return text;
    const bool is_reading = request.first_token_ns == 0 || request.begin_ns + request.first_token_ns > batch.begin_ns;
    return std::string(is_reading ? "reads its prompt" : "puts out tokens") + (text.empty() ? "" : ", ") + text;
  }

  // A stretch of a culprit's time.
  struct Did {
    int64_t begin_ns, end_ns;
    const char* style;
    std::string what;
  };
  // What a culprit did in the request's time. Its threads are drawn over each other, those at work last.
  Lane CulpritLane(const VerdictNode& node, const std::string& text) const {
    Interval whole = time_;
    if (node.by.batch != kNone) {
      const model::BatchRow& row = trace_.batches[node.by.batch];
      whole = Clip(row.begin_ns, trace_.BatchEnd(row));
    } else if (node.by.request != kNone) {
      const model::RequestRow& row = trace_.requests[node.by.request];
      whole = Clip(row.begin_ns, trace_.RequestEnd(row));
    }
    if (whole.begin_ns >= whole.end_ns) return {text, "", ""};
    const std::vector<Did> scopes = ScopesOf(node.by, whole), gpu = GpuWorkOf(node.by, whole);
    std::map<std::string, int64_t> times;
    for (const std::vector<Did>* all : {&scopes, &gpu}) {
      for (const Did& did : *all) times[did.what] += did.end_ns - did.begin_ns;
    }
    std::string svg;
    if (node.by.batch != kNone || node.by.request != kNone) {
      Bars stay(time_.begin_ns, time_.end_ns);
      stay.Add(whole.begin_ns, whole.end_ns, "other", "in the server, " + Duration(whole.end_ns - whole.begin_ns));
      svg += stay.Svg(20);
    }
    for (const char* const style : {"wait", "code"}) svg += Drawn(scopes, style);
    return {text + MostOf(times), "", svg + Drawn(gpu, "gpu")};
  }
  std::string Drawn(const std::vector<Did>& all, std::string_view style) const {
    Bars bars(time_.begin_ns, time_.end_ns);
    for (const Did& did : all) {
      if (did.style == style)
        bars.Add(did.begin_ns, did.end_ns, did.style, did.what + ", " + Duration(did.end_ns - did.begin_ns));
    }
    return bars.Svg(20);
  }
  static std::string MostOf(const std::map<std::string, int64_t>& times) {
    std::vector<std::pair<int64_t, std::string>> most;
    for (const auto& [name, ns] : times) most.emplace_back(-ns, name);
    std::sort(most.begin(), most.end());
    std::string text;
    for (size_t i = 0; i < most.size() && i < kMostNamed; ++i)
      text += (i == 0 ? ". Meanwhile: " : ", ") + most[i].second + " " + Duration(-most[i].first);
    return text;
  }

  bool IsOf(const Culprit& by, uint32_t request, uint32_t batch) const {
    if (by.batch != kNone) return batch == by.batch;
    if (by.request == kNone) return true;
    return request == by.request || (batch != kNone && IsMember(by.request, batch));
  }
  bool IsMember(uint32_t request, uint32_t batch) const {
    const auto begin = trace_.members.begin() + trace_.batches[batch].first_member;
    return std::any_of(begin, begin + trace_.batches[batch].member_count,
                       [&](const model::MemberRow& member) { return member.request == request; });
  }
  std::vector<uint32_t> ThreadsOf(const Culprit& by, const Interval& time) const {
    if (by.batch == kNone && by.request == kNone)
      return by.thread == kNone ? std::vector<uint32_t>() : std::vector{by.thread};
    std::vector<uint32_t> threads;
    for (uint32_t t = 0; t < trace_.threads.size() && threads.size() < kMostThreads; ++t) {
      const model::ThreadRow& row = trace_.threads[t];
      for (uint32_t e = row.first_event; e < row.first_event + row.event_count; ++e) {
        if (trace_.events.begin_ns[e] >= time.end_ns) break;
        if (trace_.EventEnd(e) <= time.begin_ns || !IsOf(by, trace_.events.request[e], trace_.events.batch[e]))
          continue;
        threads.push_back(t);
        break;
      }
    }
    return threads;
  }
  static std::vector<Did> ByTime(std::vector<Did> all) {
    std::sort(all.begin(), all.end(), [](const Did& a, const Did& b) { return a.begin_ns < b.begin_ns; });
    return all;
  }
  std::vector<Did> ScopesOf(const Culprit& by, const Interval& time) const {
    std::vector<Did> all;
    for (const uint32_t thread : ThreadsOf(by, time)) {
      for (const model::Segment& segment : model::FlattenThread(trace_, thread, time.begin_ns, time.end_ns)) {
        if (!IsOf(by, trace_.events.request[segment.event], trace_.events.batch[segment.event])) continue;
        const bool is_wait = trace_.sites[trace_.events.site[segment.event]].kind == SiteKind::kWait;
        const std::string resource = verdict::ResourceName(trace_, segment.event);
        const std::string name =
            verdict::QuotedName(resource.empty() ? trace_.EventName(segment.event) : std::string_view(resource));
        all.push_back(
            {segment.begin_ns, segment.end_ns, is_wait ? "wait" : "code", (is_wait ? "wait for " : "in ") + name});
      }
    }
    return ByTime(std::move(all));
  }
  std::vector<Did> GpuWorkOf(const Culprit& by, const Interval& time) const {
    std::vector<Did> all;
    if (by.batch == kNone && by.request == kNone) return all;
    for (uint32_t g = 0; g < trace_.gpu.size(); ++g) {
      const int64_t begin_ns = std::max(trace_.gpu.begin_ns[g], time.begin_ns);
      const int64_t end_ns = std::min(trace_.gpu.begin_ns[g] + trace_.gpu.duration_ns[g], time.end_ns);
      if (begin_ns >= end_ns) continue;
      const uint32_t call = trace_.gpu.call[g];
      if (g == by.gpu || (call != kNone && IsOf(by, trace_.calls.request[call], trace_.calls.batch[call])))
        all.push_back({begin_ns, end_ns, "gpu", "GPU: " + verdict::GpuWorkName(trace_, g)});
    }
    return ByTime(std::move(all));
  }

  const blame::Index& index_;
  const Trace& trace_;
  const Judgement& of_;
  const Interval time_;
};

}  // namespace

Lanes MembersOfStep(const Judgement& of) { return Neighbours(of).Members(); }
Lanes CulpritsMeanwhile(const Judgement& of) { return Neighbours(of).Culprits(); }

}  // namespace pitot::judge
