// SPDX-License-Identifier: Apache-2.0
#include "analyze/blame/interpreter.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace pitot::blame {

using model::kNone;
using model::Trace;

namespace {

// After a long wait the lock is asked for again in 1 ms. So much later than the last wait, the lock may have been free
// in between; less, and threads were taking turns.
constexpr int64_t kTurnNs = 4'000'000;
// A thread goes on within this time once it has the interpreter.
constexpr int64_t kResumeNs = 3'000'000;
// Others that want it keep it for this long each (sys.getswitchinterval), and few are ahead.
constexpr int64_t kSwitchNs = 5'000'000;
constexpr int64_t kMostTurns = 2;

// The recorder marks the steps for at most so long after a long one.
constexpr int64_t kCatchUpNs = 51'000'000;

// The thread of the Python package. Where it runs Python, it may set off a collection that was due.
constexpr std::string_view kOwnWatcher = "pitot-python";

constexpr uint32_t kArgs[] = {0, 2, 4, 4, 2, 0, 0};  // least number by kind

// The C API, which interpreters call, and what they record of themselves.
bool IsOfBinding(std::string_view file) { return file == "pitot/c.h" || file == "pitot/interpreter.h"; }

}  // namespace

Interpreter::Interpreter(const Trace& trace, const model::RequestIndex& requests)
    : trace_(trace),
      requests_(requests),
      kinds_(trace.sites.size(), kOther),
      has_loop_(trace.threads.size()),
      runs_(trace.threads.size()),
      steps_(trace.threads.size()) {
  bool has_any = false;
  for (size_t site = 0; site < trace.sites.size(); ++site) {
    const model::SiteRow& row = trace.sites[site];
    if (trace.strings[row.file] != "pitot/interpreter.h") continue;
    const std::string_view function = trace.strings[row.function];
    const Kind kind = function == "RecordCollection"       ? kCollection
                      : function == "RecordLockHeld"       ? kHeld
                      : function == "RecordThreadsStopped" ? kStopped
                      : function == "RecordStep"           ? kStep
                      : function == "BeginStep"            ? kResumed
                      : function == "EndStep"              ? kLoop
                                                           : kOther;
    if (row.arg_types.size() < kArgs[kind]) continue;
    kinds_[site] = kind;
    has_any |= kind != kOther;
  }
  if (!has_any) return;
  std::vector<bool> is_of_binding;
  for (const model::SiteRow& row : trace.sites) is_of_binding.push_back(IsOfBinding(trace.strings[row.file]));
  std::vector<Held> locks;
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    const Kind kind = kinds_[trace.events.site[event]];
    const uint32_t thread = trace.events.thread[event];
    if (is_of_binding[trace.events.site[event]]) runs_[thread] = true;
    if (trace.sites[trace.events.site[event]].kind == SiteKind::kWait) {
      edges_.emplace_back(trace.events.begin_ns[event], thread);
      if (trace.events.duration_ns[event] != model::kOpen) edges_.emplace_back(trace.EventEnd(event), thread);
    }
    if (kind == kStep) steps_[thread].push_back(event);
    if (kind >= kStep) has_loop_[thread] = true;
    if (kind != kCollection && kind != kHeld && kind != kStopped) continue;
    Held held{trace.events.begin_ns[event], trace.EventEnd(event), Blame::kHostGc, thread, event, kNone};
    if (held.begin_ns >= held.end_ns) continue;
    if (kind != kCollection) std::swap(held.thread, held.watcher);
    if (kind == kHeld) held.blame = Blame::kHostGil;
    if (kind == kHeld && Arg(event, 0) == 0) {
      unknown_.push_back({held.begin_ns, held.end_ns});
      continue;
    }
    (kind == kCollection ? held_ : locks).push_back(held);
  }
  AddLock(&locks);
  for (const Held& held : held_) {
    if (held.thread != kNone) runs_[held.thread] = true;
  }
  std::sort(edges_.begin(), edges_.end());
  std::sort(unknown_.begin(), unknown_.end(), [](auto a, auto b) { return a.begin_ns < b.begin_ns; });
  for (std::vector<uint32_t>& steps : steps_) {
    std::sort(steps.begin(), steps.end(),
              [&](uint32_t a, uint32_t b) { return trace_.events.begin_ns[a] < trace_.events.begin_ns[b]; });
  }
}

int64_t Interpreter::UnseenNs() const {
  const bool is_wanted =
      std::any_of(held_.begin(), held_.end(), [](auto& held) { return held.blame == Blame::kHostGil; });
  return is_wanted || !unknown_.empty() ? kSwitchNs : 0;
}

uint32_t Interpreter::StepAt(uint32_t thread, int64_t at_ns) const {
  if (!HasLoop(thread)) return kNone;
  const std::vector<uint32_t>& steps = steps_[thread];
  const auto after = std::partition_point(steps.begin(), steps.end(),
                                          [&](uint32_t step) { return trace_.events.begin_ns[step] <= at_ns; });
  return after != steps.begin() && trace_.EventEnd(*(after - 1)) > at_ns ? *(after - 1) : kNone;
}

bool Interpreter::WasReady(uint32_t request, uint32_t step) const {
  const int64_t end_ns = trace_.EventEnd(step);
  const auto events = requests_.Events(request);
  return std::any_of(events.begin(), events.end(), [&](uint32_t event) {
    return Is(event, kResumed) && trace_.events.thread[event] == trace_.events.thread[step] &&
           trace_.events.begin_ns[event] >= end_ns && trace_.events.begin_ns[event] - end_ns <= kCatchUpNs;
  });
}

uint64_t Interpreter::Arg(uint32_t event, uint32_t number) const {
  const uint32_t first = trace_.events.args[event];
  return first != kNone && number < trace_.arg_values.size() - first ? trace_.arg_values[first + number] : 0;
}

// Those of `over`, and of `under` what is left beside them. Both are in order.
std::vector<Interpreter::Held> Interpreter::Lay(const std::vector<Held>& over, const std::vector<Held>& under) {
  std::vector<Held> all;
  const auto add = [&](Held held) {
    if (!all.empty()) held.begin_ns = std::max(held.begin_ns, all.back().end_ns);
    if (held.begin_ns < held.end_ns) all.push_back(held);
  };
  auto next = over.begin();
  for (Held rest : under) {
    for (; next != over.end() && next->begin_ns < rest.end_ns; ++next) {
      Held before = rest;
      before.end_ns = next->begin_ns;
      add(before);
      add(*next);
      rest.begin_ns = std::max(rest.begin_ns, next->end_ns);
    }
    add(rest);
  }
  std::for_each(next, over.end(), add);
  return all;
}

// Whether a collection by another thread than the only one that ran had to wait for that: it stops threads only where
// they let it.
bool Interpreter::HeldUpCollection(const Held& stop) const {
  if (!IsStop(stop.event) || Arg(stop.event, 0) == 0) return false;
  const auto after =
      std::partition_point(held_.begin(), held_.end(), [&](const Held& held) { return held.begin_ns < stop.end_ns; });
  if (after == held_.begin() || (after - 1)->end_ns <= stop.begin_ns) return false;
  const uint32_t collects = (after - 1)->thread;
  return collects == kNone || trace_.threads[collects].tid != static_cast<int64_t>(Arg(stop.event, 0));
}

// A collection holds the lock, too: it comes first. Between two long waits of the watcher the lock was not free.
void Interpreter::AddLock(std::vector<Held>* locks) {
  const auto by_begin = [](const Held& a, const Held& b) { return a.begin_ns < b.begin_ns; };
  std::stable_sort(held_.begin(), held_.end(), by_begin);
  std::stable_sort(locks->begin(), locks->end(), by_begin);
  std::unordered_map<int64_t, uint32_t> rows;
  for (uint32_t row = 0; row < trace_.threads.size(); ++row) rows.emplace(trace_.threads[row].tid, row);
  std::map<std::tuple<Blame, uint64_t, uint64_t>, uint32_t> alike;  // by thread and place
  std::vector<Held> late;
  for (size_t i = 0; i < locks->size(); ++i) {
    Held& lock = (*locks)[i];
    const uint64_t tid = Arg(lock.event, 0);
    const auto row = rows.find(static_cast<int64_t>(tid));
    if (tid != 0 && row != rows.end()) lock.thread = row->second;
    if (HeldUpCollection(lock)) late.push_back(lock);
    lock.event = alike.emplace(std::tuple(lock.blame, tid, Arg(lock.event, 2)), lock.event).first->second;
    if (i > 0 && lock.blame == Blame::kHostGil && lock.begin_ns - (*locks)[i - 1].end_ns < kTurnNs)
      lock.begin_ns = std::min(lock.begin_ns, (*locks)[i - 1].end_ns);
  }
  held_ = Lay(late, Lay(held_, *locks));
}

const Interpreter::Held* Interpreter::LastBefore(uint32_t thread, int64_t by_ns, int64_t since_ns) const {
  auto after =
      std::partition_point(held_.begin(), held_.end(), [&](const Held& held) { return held.begin_ns < by_ns; });
  for (; after != held_.begin() && (after - 1)->end_ns > since_ns; --after) {
    if ((after - 1)->thread != thread && (after - 1)->watcher != thread) return &*(after - 1);
  }
  return nullptr;
}

bool Interpreter::WentOnAfter(const Held& held, uint32_t thread, int64_t at_ns) const {
  const int64_t late_ns = at_ns - held.end_ns;
  if (late_ns <= kResumeNs) return true;
  if (late_ns > kResumeNs + kSwitchNs * kMostTurns) return false;
  const auto first = std::upper_bound(edges_.begin(), edges_.end(), std::pair(held.end_ns, UINT32_MAX));
  const auto last = std::lower_bound(first, edges_.end(), std::pair(at_ns, uint32_t{0}));
  std::set<uint32_t> threads;
  for (auto edge = first; edge != last; ++edge) threads.insert(edge->second);
  threads.erase(thread);
  const int64_t turns = std::min<int64_t>(static_cast<int64_t>(threads.size()), kMostTurns);
  return late_ns <= kResumeNs + kSwitchNs * turns;
}

int64_t Interpreter::HeldNs(uint32_t thread, int64_t begin_ns, int64_t end_ns) const {
  auto at = std::partition_point(held_.begin(), held_.end(), [&](const Held& held) { return held.end_ns <= begin_ns; });
  int64_t ns = 0;
  for (; at != held_.end() && at->begin_ns < end_ns; ++at) {
    if (at->thread != thread && at->watcher != thread)
      ns += std::min(at->end_ns, end_ns) - std::max(at->begin_ns, begin_ns);
  }
  return ns;
}

int64_t Interpreter::HeldByUnknownNs(int64_t begin_ns, int64_t end_ns) const {
  auto at = std::partition_point(unknown_.begin(), unknown_.end(),
                                 [&](const model::Interval& held) { return held.end_ns <= begin_ns; });
  int64_t ns = 0;
  for (; at != unknown_.end() && at->begin_ns < end_ns; ++at)
    ns += std::min(at->end_ns, end_ns) - std::max(at->begin_ns, begin_ns);
  return ns;
}

uint32_t Interpreter::RequestOf(uint32_t step) const {
  const uint64_t id = Arg(step, 1);
  return id != 0 ? requests_.Row(id) : kNone;
}

std::string Interpreter::Text(uint32_t event) const {
  if (event == kNone) return "";
  const auto text = [&](uint32_t number) {
    const bool is_text = model::IsText(trace_.sites[trace_.events.site[event]].arg_types[number]);
    return is_text ? std::string(trace_.strings[static_cast<model::StringId>(Arg(event, number))]) : std::string();
  };
  if (IsCollection(event)) {
    const uint32_t thread = trace_.events.thread[event];
    std::string name = thread != kNone ? std::string(trace_.strings[trace_.threads[thread].name]) : "";
    if (name == kOwnWatcher) name += " (Pitot's own)";
    return (name.empty() ? "" : name + ", ") + "generation " + std::to_string(Arg(event, 0));
  }
  if (!Is(event, kHeld) && !Is(event, kStopped)) return "";
  std::string name = text(1);
  if (name.empty() && IsStop(event) && Arg(event, 0) == 0) return "";
  if (name.empty()) name = "thread " + std::to_string(Arg(event, 0));
  const std::string place = text(2);
  return place.empty() ? name : name + " at " + place;
}

}  // namespace pitot::blame
