// SPDX-License-Identifier: Apache-2.0
#include "serialize/profile_count.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/flatten.h"
#include "model/graph_work.h"
#include "model/interpreter_watch.h"
#include "model/kernel_name.h"
#include "model/losses.h"
#include "model/request_text.h"
#include "pitot/model/index.h"
#include "pitot/model/trace.h"

namespace pitot::serialize {
namespace {

using model::Interval;
using model::kNone;
using model::StringId;
using model::Trace;
using Frame = ProfileWriter::Frame;
using Stack = ProfileWriter::Stack;

// Counts as `pitot top` does: everything is cut at the window's edges, and the tests compare the sums.
class ProfileCount {
 public:
  ProfileCount(const Trace& trace, ProfileWriter* writer)
      : trace_(trace), out_(*writer), launches_(trace), waiting_(trace), lost_(trace.threads.size()) {
    for (const model::LossRow& loss : trace.losses) {
      if (loss.thread != kNone && model::IsOfEvents(loss.reason))
        lost_[loss.thread].push_back({loss.begin_ns, loss.end_ns});
    }
    for (const model::SiteRow& site : trace.sites) {
      is_watch_.push_back(IsInterpreterWatch(trace, site));
      has_waits_ |= site.kind == SiteKind::kWait;
    }
  }

  bool Write() {
    uint32_t call = 0;
    for (uint32_t thread = 0; thread < trace_.threads.size() && out_.ok(); ++thread) {
      uint32_t last = call;
      while (last < trace_.calls.size() && trace_.calls.thread[last] == thread) ++last;
      CountThread(thread, call, last);
      call = last;
    }
    thread_ = kNone;
    for (; call < trace_.calls.size(); ++call) CountLaunch(call);
    for (uint32_t row = 0; row < trace_.gpu.size(); ++row) {
      if (trace_.gpu.call[row] == kNone) CountGpu(row);
    }
    CountRequests();
    out_.Finish();
    return out_.ok();
  }

 private:
  struct Open {
    int64_t end_ns;
    uint32_t event;
    Stack stack;
    bool is_nested;  // in all that were open when it began: `stack` is right until its end
  };
  // A thread waits. `cause` is a call, or 0 for a wait that is a scope itself.
  struct Wait {
    int64_t begin_ns, end_ns;
    Frame cause;
  };

  Interval KnownOf(uint32_t thread) const {
    const int64_t begin_ns = trace_.threads[thread].history_begin_ns;
    return {std::clamp(begin_ns, trace_.window_begin_ns, trace_.window_end_ns), trace_.window_end_ns};
  }

  void CountThread(uint32_t thread, uint32_t call, uint32_t last_call) {
    thread_ = thread;
    now_ns_ = INT64_MIN;
    ends_ = {};
    const Interval known = KnownOf(thread);
    FindWaits(known, call, last_call);
    const auto launch_until = [&](int64_t until_ns) {
      for (; call < last_call && trace_.calls.begin_ns[call] < until_ns; ++call) {
        Advance(trace_.calls.begin_ns[call]);
        CountLaunch(call);
      }
    };
    const model::ThreadRow& row = trace_.threads[thread];
    const auto is_counted = [&](uint32_t event) {
      const uint32_t site = trace_.events.site[event];
      const int64_t begin_ns = trace_.events.begin_ns[event];
      return begin_ns < known.end_ns && (begin_ns >= known.begin_ns || trace_.EventEnd(event) > known.begin_ns) &&
             model::IsScope(trace_.sites[site].kind) && !is_watch_[site];
    };
    model::VisitNested(trace_, row.first_event, row.first_event + row.event_count, is_counted, [&](uint32_t event) {
      const int64_t begin_ns = std::max(trace_.events.begin_ns[event], known.begin_ns);
      launch_until(begin_ns);
      Begin(event, begin_ns, std::min(trace_.EventEnd(event), known.end_ns));
    });
    launch_until(INT64_MAX);
    Advance(INT64_MAX);
  }

  void FindWaits(const Interval& known, uint32_t first_call, uint32_t last_call) {
    waits_.clear();
    wait_ = 0;
    for (uint32_t call = first_call; call < last_call; ++call) {
      if (waiting_.Has(call))
        waits_.push_back({trace_.calls.begin_ns[call], trace_.CallEnd(call), NamedFrame(trace_.calls.name[call])});
    }
    if (has_waits_) {
      model::VisitSegments(trace_, thread_, known, [&](const model::Segment& segment) {
        const uint32_t site = trace_.events.site[segment.event];
        if (trace_.sites[site].kind != SiteKind::kWait) return;
        waits_.push_back({segment.begin_ns, segment.end_ns, is_watch_[site] ? FrameOf(segment.event) : 0});
      });
    }
    std::stable_sort(waits_.begin(), waits_.end(),
                     [](const Wait& a, const Wait& b) { return a.begin_ns < b.begin_ns; });
    int64_t until_ns = INT64_MIN;  // each moment has one cause
    for (Wait& wait : waits_) {
      wait.begin_ns = std::max(wait.begin_ns, until_ns);
      wait.end_ns = std::max(wait.begin_ns, wait.end_ns);
      until_ns = wait.end_ns;
    }
  }

  void Begin(uint32_t event, int64_t begin_ns, int64_t end_ns) {
    Advance(begin_ns);
    if (open_.size() == open_.capacity()) {  // ended ones below others go before it grows
      std::erase_if(open_, [&](const Open& open) { return open.end_ns <= now_ns_; });
      open_.reserve(2 * open_.size() + 16);
    }
    if (end_ns <= begin_ns) return;
    const bool is_nested = open_.empty() || (open_.back().is_nested && end_ns <= open_.back().end_ns);
    const Stack stack = is_nested ? NestedStack(FrameOf(event)) : ProfileWriter::kNoStack;
    open_.push_back({end_ns, event, stack, is_nested});
    ends_.push(end_ns);
  }

  // A scope within the open ones, which all nest. Below many of them it stands alone.
  Stack NestedStack(Frame frame) {
    if (open_.size() < kMostFrames) return out_.Call(StackNow(), frame);
    return out_.Call(out_.Call(open_[kMostFrames - 1].stack, MoreScopes()), frame);
  }
  Frame MoreScopes() { return out_.FrameOf("(more scopes)"); }

  Stack StackNow() {
    if (open_.empty()) return ProfileWriter::kNoStack;
    if (open_.back().is_nested) return open_.back().stack;
    // Each begin and end makes a new stack, so it has the innermost scopes only, and fewer once there are many stacks.
    const size_t most = out_.stacks() < kMostStacks ? kMostFrames : 1;
    uint32_t events[kMostFrames];
    size_t count = 0;
    Stack stack = ProfileWriter::kNoStack;
    for (size_t i = open_.size(); i-- > 0;) {
      if (open_[i].end_ns <= now_ns_) continue;
      if (count == most) {
        stack = out_.Call(stack, MoreScopes());
        break;
      }
      events[count++] = open_[i].event;
    }
    while (count > 0) stack = out_.Call(stack, FrameOf(events[--count]));
    return stack;
  }

  // Passes time to the innermost scope. Afterwards that is the last of `open_`.
  void Advance(int64_t to_ns) {
    while (!open_.empty()) {
      const Open& top = open_.back();
      if (top.end_ns > now_ns_ && now_ns_ < to_ns) {
        const int64_t until_ns = std::min(NextEnd(), to_ns);
        CountHost(top.event, until_ns);
        now_ns_ = until_ns;
      }
      if (now_ns_ >= top.end_ns) {
        open_.pop_back();
      } else if (now_ns_ >= to_ns) {
        break;
      }
    }
    now_ns_ = to_ns;
  }

  // When the first of the open scopes ends.
  int64_t NextEnd() {
    while (ends_.top() <= now_ns_) ends_.pop();
    return ends_.top();
  }

  void CountHost(uint32_t event, int64_t until_ns) {
    const Stack stack = StackNow();
    const ProfileOwner owner = {thread_, trace_.events.request[event], trace_.events.batch[event], kNone};
    out_.Add(stack, owner, ProfileValue::kHost, until_ns - now_ns_);
    while (wait_ < waits_.size() && waits_[wait_].end_ns <= now_ns_) ++wait_;
    for (size_t i = wait_; i < waits_.size() && waits_[i].begin_ns < until_ns; ++i) {
      const Wait& wait = waits_[i];
      const int64_t ns = std::min(wait.end_ns, until_ns) - std::max(wait.begin_ns, now_ns_);
      out_.Add(wait.cause == 0 ? stack : out_.Call(stack, wait.cause), owner, ProfileValue::kWait, ns);
    }
  }

  void CountLaunch(uint32_t call) {
    for (const uint32_t row : launches_.Gpu(call)) CountGpu(row);
  }

  void CountGpu(uint32_t row) {
    const int64_t begin_ns = std::clamp(trace_.gpu.begin_ns[row], trace_.window_begin_ns, trace_.window_end_ns);
    const int64_t end_ns =
        std::clamp(trace_.gpu.begin_ns[row] + trace_.gpu.duration_ns[row], begin_ns, trace_.window_end_ns);
    if (trace_.gpu.kind[row] == model::GpuKind::kSpan || begin_ns == end_ns) return;
    Stack stack = StackNow();
    for (const Frame captured : FramesOfPath(trace_.gpu.scope_path[row])) stack = out_.Call(stack, captured);
    if (stack == ProfileWriter::kNoStack) stack = out_.Call(stack, FrameOutside(row));
    const uint32_t call = trace_.gpu.call[row];
    ProfileOwner owner = {thread_, kNone, kNone, trace_.gpu.stream[row]};
    if (call != kNone) owner.request = trace_.calls.request[call], owner.batch = trace_.calls.batch[call];
    out_.Add(out_.Call(stack, FrameOfGpu(row)), owner, ProfileValue::kGpu, end_ns - begin_ns);
  }

  // In place of the scopes of work that was launched outside of all.
  Frame FrameOutside(uint32_t row) {
    const uint32_t call = trace_.gpu.call[row];
    if (call == kNone) return out_.FrameOf("(launch unknown)");
    if (model::IsOfGraph(trace_, row)) return out_.FrameOf("(CUDA graph: scopes unknown)");
    const int64_t at_ns = trace_.calls.begin_ns[call];
    const bool is_known =
        thread_ == kNone || (at_ns >= KnownOf(thread_).begin_ns &&
                             std::none_of(lost_[thread_].begin(), lost_[thread_].end(), [&](const Interval& lost) {
                               return at_ns >= lost.begin_ns && at_ns < lost.end_ns;
                             }));
    return out_.FrameOf(is_known ? "(no scope)" : "(scopes not recorded)");
  }

  const std::vector<Frame>& FramesOfPath(StringId path) {
    constexpr std::string_view kBetween = " / ";
    const auto [found, is_new] = paths_.try_emplace(path);
    for (std::string_view rest = is_new ? trace_.strings[path] : std::string_view(); !rest.empty();) {
      const size_t size = std::min(rest.find(kBetween), rest.size());
      found->second.push_back(out_.FrameOf(rest.substr(0, size)));
      rest.remove_prefix(std::min(size + kBetween.size(), rest.size()));
    }
    return found->second;
  }

  Frame FrameOfGpu(uint32_t row) {
    if (trace_.gpu.kind[row] != model::GpuKind::kKernel)
      return out_.FrameOf(model::ActivityName(trace_, row), ProfilePlace::kGpu);
    Frame& frame = kernels_[trace_.gpu.name[row]];
    if (frame != 0) return frame;
    const std::string_view compiled = trace_.strings[trace_.gpu.name[row]];
    const std::string name = model::ReadKernelName(compiled).full;
    return frame = out_.FrameOf(name.empty() ? "(unnamed)" : name, ProfilePlace::kGpu, compiled);
  }

  Frame NamedFrame(StringId name) {
    Frame& frame = names_[name];
    if (frame == 0) frame = out_.FrameOf(trace_.strings[name]);
    return frame;
  }

  // A scope's name; with its resource for a wait.
  Frame FrameOf(uint32_t event) {
    const uint32_t site_row = trace_.events.site[event], args = trace_.events.args[event];
    const model::SiteRow& site = trace_.sites[site_row];
    StringId name = site.name, resource = 0;
    if (args != kNone) {
      if (site.name_is_first_arg) name = static_cast<StringId>(trace_.arg_values[args]);
      if (site.kind == SiteKind::kWait && site.arg_types.size() >= 2 && model::IsText(site.arg_types[1]))
        resource = static_cast<StringId>(trace_.arg_values[args + 1]);
    }
    Frame& frame = scopes_[uint64_t{name} << 32 | resource];
    if (frame != 0) return frame;
    std::string text(trace_.strings[name]);
    if (text.empty()) text = "(unnamed)";
    if (resource != 0) text += ": " + std::string(trace_.strings[resource]);
    return frame = out_.FrameOf(text, ProfilePlace::kHost, {}, trace_.strings[site.file], site.line);
  }

  // The GPU time of requests, as they share that of their batches.
  void CountRequests() {
    const model::GpuTime time(trace_);
    for (uint32_t row = 0; row < trace_.requests.size(); ++row) {
      const int64_t ns = time.Request(row);
      if (ns == 0) continue;
      const std::string route(trace_.strings[trace_.requests[row].route]);
      const Stack of_route =
          route.empty() ? ProfileWriter::kNoStack : out_.Call(ProfileWriter::kNoStack, out_.FrameOf(route));
      const Frame frame = out_.FrameOf(model::RequestName(trace_, row) + " " + route);
      out_.Add(out_.Call(of_route, frame), {kNone, row, kNone, kNone}, ProfileValue::kRequestGpu, ns);
    }
    int64_t others_ns = 0;
    for (uint32_t batch = 0; batch < trace_.batches.size(); ++batch)
      others_ns += time.Shares(batch).empty() ? time.Batch(batch) : 0;
    std::vector<Interval> unowned;
    for (uint32_t row = 0; row < trace_.gpu.size(); ++row) {
      if (trace_.gpu.kind[row] != model::GpuKind::kSpan && IsUnowned(trace_.gpu.call[row]))
        model::AddTo(&unowned, {trace_.gpu.begin_ns[row], trace_.gpu.begin_ns[row] + trace_.gpu.duration_ns[row]});
    }
    others_ns += model::TotalNs(model::Union(std::move(unowned)));
    out_.Add(out_.Call(ProfileWriter::kNoStack, out_.FrameOf("(no request)")), {}, ProfileValue::kRequestGpu,
             others_ns);
  }
  bool IsUnowned(uint32_t call) const {
    return call == kNone || (trace_.calls.request[call] == kNone && trace_.calls.batch[call] == kNone);
  }

  static constexpr size_t kMostFrames = 128;        // of scopes in a stack
  static constexpr size_t kMostStacks = 1'000'000;  // beyond, scopes that overlap without nesting have short ones

  const Trace& trace_;
  ProfileWriter& out_;
  const model::LaunchIndex launches_;
  const model::WaitingCalls waiting_;
  std::vector<std::vector<Interval>> lost_;  // by thread: when events were lost
  std::vector<bool> is_watch_;               // by site
  bool has_waits_ = false;
  std::unordered_map<uint64_t, Frame> scopes_;           // by name and resource
  std::unordered_map<StringId, Frame> names_, kernels_;  // of calls and kernels
  std::unordered_map<StringId, std::vector<Frame>> paths_;
  // The current thread.
  uint32_t thread_ = kNone;
  std::vector<Open> open_;  // the last one on top; an ended one stays until it is on top
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> ends_;  // of open scopes, and of some ended ones
  int64_t now_ns_ = 0;
  std::vector<Wait> waits_;
  size_t wait_ = 0;  // the first that may end after now_ns_
};

}  // namespace

bool CountProfile(const Trace& trace, ProfileWriter* writer) { return ProfileCount(trace, writer).Write(); }

}  // namespace pitot::serialize
