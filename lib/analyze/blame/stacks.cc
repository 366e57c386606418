// SPDX-License-Identifier: Apache-2.0
#include "analyze/blame/stacks.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "analyze/blame/walk_waits.h"

namespace pitot::blame {

using model::kNone;
using model::Trace;

namespace {

// The arguments of a stack, as lib/trace/stack.cc records them.
enum StackArg : uint32_t { kTid, kOwn, kMissed, kCall, kFrame, kArgsOfStack = 7 };
constexpr uint32_t kFramesOfStack = 3;
constexpr uint64_t kNative = 0x100, kOnCpu = 0x200;  // in kOwn

constexpr uint32_t kCode =
    BlameBit(Blame::kHostOncpuPre) | BlameBit(Blame::kHostOncpuFramework) | BlameBit(Blame::kHostOncpuPost);
constexpr int64_t kLeastSpread = 4;  // a stack stands for at most this part of the time: others are needed elsewhere

// "fetch (app.py)" of "fetch (app.py:88)": a frame without its line.
std::string FunctionOf(const std::string& frame) {
  const size_t colon = frame.rfind(':');
  const bool has_line = colon != std::string::npos && frame.back() == ')' && colon + 2 < frame.size() &&
                        frame.find_first_not_of("0123456789", colon + 1) == frame.size() - 1;
  return has_line ? frame.substr(0, colon) + ")" : frame;
}

bool IsStackSite(const Trace& trace, const model::SiteRow& site) {
  if (trace.strings[site.file] != "pitot/stack.h" || site.arg_types.size() != kArgsOfStack) return false;
  return std::all_of(site.arg_types.begin() + kCall, site.arg_types.end(),
                     [](ArgType type) { return model::IsText(type); });
}

}  // namespace

Stacks::Stacks(const Trace& trace) : trace_(trace) {
  std::vector<bool> is_stack(trace.sites.size());
  for (size_t site = 0; site < trace.sites.size(); ++site) is_stack[site] = IsStackSite(trace, trace.sites[site]);
  if (std::find(is_stack.begin(), is_stack.end(), true) == is_stack.end()) return;
  std::unordered_map<int64_t, uint32_t> rows;
  for (uint32_t row = 0; row < trace.threads.size(); ++row) {
    const auto [at, is_new] = rows.emplace(trace.threads[row].tid, row);
    if (!is_new) at->second = kNone;  // it may be of either
  }
  of_threads_.resize(trace.threads.size());
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    if (!is_stack[trace.events.site[event]] || trace.events.args[event] == kNone) continue;
    const auto row = rows.find(static_cast<int64_t>(Arg(event, kTid)));
    if (row != rows.end() && row->second != kNone) of_threads_[row->second].push_back(event);
  }
  for (std::vector<uint32_t>& events : of_threads_) {
    std::stable_sort(events.begin(), events.end(),
                     [&](uint32_t a, uint32_t b) { return trace.events.begin_ns[a] < trace.events.begin_ns[b]; });
  }
}

uint64_t Stacks::Arg(uint32_t event, uint32_t number) const {
  const size_t at = size_t{trace_.events.args[event]} + number;
  return at < trace_.arg_values.size() ? trace_.arg_values[at] : 0;
}

std::string Stacks::Name(uint32_t event, uint32_t number) const {
  return std::string(trace_.strings[static_cast<model::StringId>(Arg(event, number))]);
}

bool Stacks::IsNative(uint32_t event) const { return (Arg(event, kOwn) & kNative) != 0; }
bool Stacks::HasRun(uint32_t event) const { return (Arg(event, kOwn) & kOnCpu) != 0; }

uint32_t Stacks::OwnArg(uint32_t event) const {
  const uint64_t own = Arg(event, kOwn) & ~(kNative | kOnCpu);
  return kFrame + static_cast<uint32_t>(own < kFramesOfStack ? own : 0);
}

// A recorded wait says itself what it was for. Counters do not tell at what moment code stood still: then stacks next
// to the segment, in the same scope, count too.
void Stacks::Add(const BlameSegment& segment, uint32_t row, std::vector<Read>* reads) const {
  WaitArgs wait;
  if (segment.thread >= of_threads_.size() || ReadWait(trace_, segment.event, &wait)) return;
  const std::vector<uint32_t>& all = of_threads_[segment.thread];
  int64_t begin_ns = segment.begin_ns, end_ns = segment.end_ns;
  if (segment.counter != kNone && segment.event != kNone) {
    const int64_t length_ns = end_ns - begin_ns;
    begin_ns = std::max(begin_ns - length_ns, std::min(begin_ns, trace_.events.begin_ns[segment.event]));
    end_ns = std::min(end_ns + length_ns, std::max(end_ns, trace_.EventEnd(segment.event)));
  }
  auto at = std::partition_point(all.begin(), all.end(),
                                 [&](uint32_t event) { return trace_.events.begin_ns[event] < begin_ns; });
  for (; at != all.end() && trace_.events.begin_ns[*at] <= end_ns; ++at)
    reads->push_back(
        {*at, row, segment.end_ns - std::clamp(trace_.events.begin_ns[*at], segment.begin_ns, segment.end_ns)});
}

// A thread of an interpreter that was in no call may have run, or wanted to: such stacks do not show a sleep. And below
// an interpreter's frames all its threads look alike.
void Stacks::LeaveOutUnclear(Blame part, std::vector<Read>* reads) const {
  const auto is_native = [&](const Read& read) { return IsNative(read.event); };
  const auto may_have_run = [&](const Read& read) {
    return is_native(read) ? HasRun(read.event) : Call(read.event).empty();
  };
  if (part == Blame::kHostBlockedUnknown) std::erase_if(*reads, may_have_run);
  if (!std::all_of(reads->begin(), reads->end(), is_native)) std::erase_if(*reads, is_native);
}

Stacks::Seen Stacks::Count(const std::vector<uint32_t>& events) const {
  Seen seen;
  seen.count = static_cast<uint32_t>(events.size());
  std::map<uint64_t, std::map<uint64_t, std::pair<uint32_t, uint32_t>>> places;  // frame, call: how many, and one
  for (const uint32_t event : events) {
    if (HasRun(event)) continue;  // OfCode
    auto& [count, one] = places[Arg(event, OwnArg(event))][Arg(event, kCall)];
    if (count++ == 0) one = event;
  }
  for (const auto& [frame, calls] : places) {
    uint32_t agree = 0, asleep = 0;
    std::pair<uint32_t, uint32_t> most{0, kNone};
    for (const auto& [call, at] : calls) {
      agree += at.first;
      if (!trace_.strings[static_cast<model::StringId>(call)].empty()) asleep += at.first;
      if (at.first > most.first) most = at;
    }
    if (2 * agree <= seen.count) continue;
    seen.agree = agree;
    seen.asleep = asleep;
    seen.event = most.second;
  }
  return seen;
}

Stacks::Seen Stacks::Of(const BlameSegment& segment) const { return Of(std::vector{segment}, segment.blame); }

Stacks::Seen Stacks::Of(const std::vector<BlameSegment>& segments, Blame part) const {
  if (of_threads_.empty() || (part != Blame::kHostBlockedUnknown && part != Blame::kUntraced)) return {};
  std::vector<Read> reads;
  for (uint32_t row = 0; row < segments.size(); ++row) {
    if (segments[row].blame == part) Add(segments[row], row, &reads);
  }
  LeaveOutUnclear(part, &reads);
  std::vector<uint32_t> events;
  std::map<uint32_t, int64_t> covered;  // by segment, from the first stack on
  for (const Read& read : reads) {
    events.push_back(read.event);
    covered[read.segment] = std::max(covered[read.segment], read.rest_ns);
  }
  std::sort(events.begin(), events.end());
  events.erase(std::unique(events.begin(), events.end()), events.end());
  Seen seen = Count(events);
  for (const auto& [segment, ns] : covered) seen.covered_ns += ns;
  return seen;
}

bool Stacks::IsSameCode(const BlameSegment& one, const BlameSegment& other) const {
  if (one.blame != other.blame || one.thread != other.thread || one.call != other.call || one.gpu != other.gpu ||
      (one.event == kNone) != (other.event == kNone))
    return false;
  return one.event == other.event || trace_.EventName(one.event) == trace_.EventName(other.event);
}

// A stack stands for the time until the next one, up to a part of the whole: code keeping the interpreter's lock is not
// seen. Stacks that do not count leave no gap.
template <class Counts> Stacks::CodeRead Stacks::ReadCode(const std::vector<BlameSegment>& segments,
                                                          const BlameSegment& at, const Counts& counts) const {
  const std::vector<uint32_t>& all = of_threads_[at.thread];
  const std::vector<int64_t>& begins = trace_.events.begin_ns;
  CodeRead read;
  int64_t whole_ns = 0, covered_ns = 0;
  for (const BlameSegment& one : segments) whole_ns += IsSameCode(one, at) ? one.end_ns - one.begin_ns : 0;
  for (const BlameSegment& one : segments) {
    if (!IsSameCode(one, at)) continue;
    auto event = std::partition_point(all.begin(), all.end(), [&](uint32_t row) { return begins[row] < one.begin_ns; });
    int64_t last_ns = one.end_ns;
    const auto cover_to = [&](int64_t ns) {
      covered_ns += std::clamp<int64_t>(ns - last_ns, 0, whole_ns / kLeastSpread);
    };
    for (; event != all.end() && begins[*event] < one.end_ns; ++event) {
      if (!counts(*event)) continue;
      cover_to(begins[*event]);
      last_ns = begins[*event];
      read.events.push_back(*event);
    }
    cover_to(one.end_ns);
  }
  read.is_covered = !read.events.empty() && 2 * covered_ns >= whole_ns;
  return read;
}

// A function counts once in a stack. Among those in enough stacks, the one most often innermost is taken.
StackPlace Stacks::MostCommon(const std::vector<uint32_t>& events) const {
  struct Function {
    uint32_t stacks = 0, innermost = 0;
    std::map<std::pair<uint64_t, uint64_t>, std::vector<std::pair<uint32_t, uint32_t>>> lines;  // and system calls
  };
  std::map<std::string, Function> functions;
  StackPlace place;
  place.count = static_cast<uint32_t>(events.size());
  for (const uint32_t event : events) {
    std::set<std::string> seen;  // a function that calls itself counts once
    const uint32_t own = OwnArg(event);
    for (uint32_t number = own; number < kArgsOfStack; ++number) {
      const std::string name = FunctionOf(Name(event, number));
      if (name.empty() || !seen.insert(name).second) continue;
      Function& function = functions[name];
      ++function.stacks;
      if (number == own) ++function.innermost;
      function.lines[{Arg(event, number), Arg(event, kCall)}].emplace_back(event, number - kFrame);
    }
    if (HasRun(event)) ++place.on_cpu;
    if (IsNative(event) ? !HasRun(event) : !Call(event).empty()) ++place.asleep;
  }
  const Function* most = nullptr;
  for (const auto& [name, function] : functions) {
    if (IsSure(function.stacks, place.count) && (most == nullptr || function.innermost > most->innermost))
      most = &function;
  }
  if (most == nullptr) return place;
  place.agree = most->stacks;
  for (const auto& [line, stacks] : most->lines) {
    if (stacks.size() <= place.at_line) continue;
    place.at_line = static_cast<uint32_t>(stacks.size());
    std::tie(place.event, place.frame) = stacks.front();
  }
  return place;
}

StackPlace Stacks::OfCode(const std::vector<BlameSegment>& segments, const BlameSegment& at, Counters counters) const {
  const bool is_code = (kCode & BlameBit(at.blame)) != 0;
  if ((!is_code && at.blame != Blame::kUntraced) || at.thread >= of_threads_.size()) return {};
  const bool is_counted = is_code && counters == Counters::kKnown;
  const CodeRead interpreted =
      ReadCode(segments, at, [&](uint32_t event) { return !IsNative(event) && (!is_counted || Call(event).empty()); });
  if (is_code ? interpreted.is_covered : !interpreted.events.empty())
    return is_code ? MostCommon(interpreted.events) : StackPlace();
  const CodeRead native =
      ReadCode(segments, at, [&](uint32_t event) { return IsNative(event) && (!is_counted || HasRun(event)); });
  if (!native.is_covered) return {};
  const StackPlace place = MostCommon(native.events);
  // Stacks of sleeping threads alone say nothing about code: they had been read where no others could be.
  const bool is_enough = is_code ? place.on_cpu != 0 : IsSure(place.on_cpu, place.count);
  return is_enough ? place : StackPlace();
}

std::string Stacks::Text(const StackPlace& place) const {
  const std::string frame = Name(place.event, kFrame + place.frame);
  const std::string function = 2 * place.at_line > place.agree ? frame : FunctionOf(frame);
  const bool is_asleep = IsSure(place.asleep, place.count) && !Call(place.event).empty();
  return is_asleep ? Call(place.event) + " below " + function : function;
}

std::string Stacks::PhraseOf(const StackPlace& place) const {
  return place.is_known() ? ", in " + Text(place) + CountText(place.agree, place.count) : "";
}

std::string Stacks::Place(uint32_t event) const {
  const uint32_t own = OwnArg(event);
  const std::string call = Call(event), below = Name(event, own);
  if (!call.empty()) return call + " below " + below;
  return own == kFrame ? below : Name(event, kFrame) + " below " + below;
}

std::vector<std::string> Stacks::Frames(uint32_t event) const {
  std::vector<std::string> frames;
  for (uint32_t i = 0; i < kFramesOfStack; ++i) {
    std::string frame = Name(event, kFrame + i);
    if (!frame.empty()) frames.push_back(std::move(frame));
  }
  return frames;
}

std::string Stacks::Call(uint32_t event) const { return Name(event, kCall); }

std::string Stacks::CountText(const Seen& seen) { return seen.is_known() ? CountText(seen.agree, seen.count) : ""; }

std::string Stacks::CountText(uint32_t agree, uint32_t count) {
  return ", in " + std::to_string(agree) + " of " + std::to_string(count) + (count == 1 ? " stack" : " stacks");
}

}  // namespace pitot::blame
