// SPDX-License-Identifier: Apache-2.0
#include "simulator/actor.h"

#include <algorithm>

namespace simulator {

const char* CauseName(Cause cause) {
  static constexpr const char* kNames[] = {
      "on_cpu", "queue_wait",     "handoff", "batch_window", "lock_wait",      "io_wait",    "sleep",
      "call",   "launch_latency", "kernel",  "dispatch_gap", "gpu_queue_wait", "sync_return"};
  return kNames[static_cast<size_t>(cause)];
}

std::string ToString(const Segment& s) {
  std::string text = "[" + std::to_string(s.begin_ns) + ", " + std::to_string(s.end_ns) + ") " + CauseName(s.cause) +
                     " '" + s.name + "' on " + std::to_string(s.thread);
  if (s.culprit.thread != 0) text += " by thread " + std::to_string(s.culprit.thread);
  if (s.culprit.request != 0) text += " by request " + std::to_string(s.culprit.request);
  if (s.culprit.batch != 0) text += " by batch " + std::to_string(s.culprit.batch);
  if (!s.culprit.doing.empty()) text += " by " + s.culprit.doing;
  if (s.close != pitot::BatchClose::kUnknown) text += std::string(" closed: ") + pitot::BatchCloseName(s.close);
  return text;
}

void AppendSegment(const Segment& segment, std::vector<Segment>* to) {
  if (segment.end_ns <= segment.begin_ns) return;
  if (!to->empty()) {
    Segment longer = to->back();
    longer.end_ns = segment.end_ns;
    Segment here = segment;
    here.begin_ns = longer.begin_ns;
    if (to->back().end_ns == segment.begin_ns && here == longer) {
      to->back() = longer;
      return;
    }
  }
  to->push_back(segment);
}

// ---- Path
// ------------------------------------------------------------------------------------------------------------

void Path::Go(int64_t now_ns, const Segment& next) {
  Stop(now_ns);
  now_ = next;
  now_.begin_ns = now_ns;
  goes_on_ = true;
}

void Path::Stop(int64_t now_ns) {
  if (!goes_on_) return;
  now_.end_ns = now_ns;
  AppendSegment(now_, &segments_);
  goes_on_ = false;
}

void Path::Append(const std::vector<Segment>& segments) {
  for (const Segment& segment : segments) AppendSegment(segment, &segments_);
}

void Path::SetBatch(uint64_t batch) {
  for (Segment& segment : segments_) {
    if (segment.cause == Cause::kBatchWindow && segment.culprit.batch == 0) segment.culprit.batch = batch;
  }
}

std::vector<Segment> Path::Until(int64_t end_ns) const {
  std::vector<Segment> result;
  for (Segment segment : segments_) {
    segment.end_ns = std::min(segment.end_ns, end_ns);
    AppendSegment(segment, &result);
  }
  if (goes_on_) {
    Segment segment = now_;
    segment.end_ns = end_ns;
    AppendSegment(segment, &result);
  }
  return result;
}

void Path::Replace(int64_t from_ns, const std::vector<Segment>& segments) {
  segments_ = Until(from_ns);
  Append(segments);
  if (!segments_.empty()) now_.begin_ns = std::max(now_.begin_ns, segments_.back().end_ns);
}

// ---- Actor
// -----------------------------------------------------------------------------------------------------------

void Actor::WorkFor(uint64_t request, uint64_t batch) {
  culprit_.request = request;
  culprit_.batch = batch;
  Changed();
}

void Actor::Board(Path* path) {
  aboard_.push_back(path);
  path->Go(World::now_ns(), Here());
}

void Actor::Leave(Path* path) {
  path->Stop(World::now_ns());
  std::erase(aboard_, path);
}

Segment Actor::Here() const {
  Segment here;
  here.thread = number();
  if (activities_.empty()) return here;  // computes outside every scope
  const Activity& top = activities_.back();
  here.name = top.name;
  switch (top.doing) {
    case Doing::kScope:
      here.cause = Cause::kOnCpu;
      here.culprit.request = culprit_.request;
      break;
    case Doing::kAwaitWork:
      here.cause = Cause::kBatchWindow;
      here.culprit.batch = culprit_.batch;
      break;
    // Not on the path in the end: the request itself is in a queue or in a batch meanwhile.
    case Doing::kAwaitRoom:
    case Doing::kAwaitResult:
    case Doing::kGranted:
      here.cause = Cause::kHandoff;
      break;
    case Doing::kIo:
      here.cause = Cause::kIoWait;
      break;
    case Doing::kSleep:
      here.cause = Cause::kSleep;
      break;
    case Doing::kCall:
      here.cause = Cause::kCall;
      break;
    case Doing::kLock:
      here.cause = Cause::kLockWait;
      here.culprit = top.owner;
      break;
  }
  return here;
}

void Actor::Changed() {
  if (World::is_over()) return;
  const int64_t now_ns = World::now_ns();
  const Segment here = Here();
  for (Path* path : aboard_) path->Go(now_ns, here);

  Spell spell{now_ns, false, culprit_};
  spell.culprit.thread = number();
  const bool awaits_work = !activities_.empty() && activities_.back().doing == Doing::kAwaitWork;
  const bool is_nobodys = culprit_.request == 0 && culprit_.batch == 0;
  if (is_nobodys && !activities_.empty()) spell.culprit.doing = activities_.back().name;
  spell.is_free = awaits_work || (is_nobodys && activities_.empty());
  if (!spells_.empty() && spells_.back().begin_ns == now_ns) spells_.pop_back();
  spells_.push_back(spell);
}

std::vector<Segment> Actor::TileQueue(const std::string& queue, int64_t from_ns) const {
  std::vector<Segment> result;
  const int64_t now_ns = World::now_ns();
  auto spell = std::upper_bound(spells_.begin(), spells_.end(), from_ns,
                                [](int64_t ns, const Spell& s) { return ns < s.begin_ns; });
  if (spell != spells_.begin()) --spell;
  for (; spell != spells_.end(); ++spell) {
    Segment segment;
    segment.begin_ns = std::max(spell->begin_ns, from_ns);
    segment.end_ns = spell + 1 != spells_.end() ? (spell + 1)->begin_ns : now_ns;
    segment.cause = spell->is_free ? Cause::kHandoff : Cause::kQueueWait;
    segment.thread = number();
    segment.name = queue;
    if (!spell->is_free) segment.culprit = spell->culprit;
    AppendSegment(segment, &result);
  }
  return result;
}

void Actor::SetLockOwner(const Culprit& owner) {
  activities_.back().owner = owner;
  Changed();
}

void Actor::SetGranted() {
  activities_.back().doing = Doing::kGranted;
  Changed();
}

TrueEvent Actor::EventOf(const Activity& activity, int64_t end_ns) const {
  TrueEvent event;
  event.thread = number();
  event.name = activity.name;
  event.begin_ns = activity.begin_ns;
  event.end_ns = end_ns;
  event.request = context_request;
  event.batch = context_batch;
  if (activity.doing == Doing::kScope) return event;
  event.kind = pitot::SiteKind::kWait;
  switch (activity.doing) {
    case Doing::kAwaitWork:
      event.wait = pitot::WaitKind::kQueue;
      break;
    case Doing::kAwaitRoom:
      event.wait = pitot::WaitKind::kCondition;
      break;
    case Doing::kAwaitResult:
      event.wait = pitot::WaitKind::kFuture;
      break;
    case Doing::kIo:
      event.wait = pitot::WaitKind::kIo;
      break;
    case Doing::kSleep:
      event.wait = pitot::WaitKind::kSleep;
      break;
    default:
      event.wait = pitot::WaitKind::kLock;
      break;
  }
  event.owner = activity.said;
  return event;
}

void Actor::Note(pitot::SiteKind kind, const std::string& name, uint64_t value) {
  TrueEvent event;
  event.thread = number();
  event.kind = kind;
  event.name = name;
  event.begin_ns = event.end_ns = World::now_ns();
  event.request = context_request;
  event.batch = context_batch;
  event.value = value;
  truth_->events.push_back(event);
}

void Actor::NoteOpen() {
  for (const Activity& activity : activities_) {
    if (activity.doing != Doing::kCall) truth_->events.push_back(EventOf(activity, pitot::model::kOpen));
  }
}

Actor::Block::Block(Actor* actor, Doing doing, const std::string& name, const Culprit& owner) : actor_(actor) {
  actor->activities_.push_back({doing, name, World::now_ns(), owner, {owner.thread, owner.request}});
  actor->Changed();
}

Actor::Block::~Block() {
  if (World::is_over()) return;
  // Calls of the GPU's API are not events of the thread's ring.
  if (actor_->activities_.back().doing != Doing::kCall)
    actor_->truth_->events.push_back(actor_->EventOf(actor_->activities_.back(), World::now_ns()));
  actor_->activities_.pop_back();
  actor_->Changed();
}

}  // namespace simulator
