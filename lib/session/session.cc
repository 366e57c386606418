// SPDX-License-Identifier: Apache-2.0
#include "session/session.h"

#include <chrono>

#include "base/message.h"
#include "session/calibrate.h"
#include "trace/names.h"
#include "trace/process.h"
#include "trace/rings.h"
#include "trigger/firing_rules.h"

namespace pitot::session {
namespace {

// Sessions that live as long as the process: a list, so that a leak checker finds them.
constinit std::atomic<Session*> g_kept{nullptr};

using base::Error;

// The triggers keep a slot for each route and copies of names.
static_assert(trigger::kMaxRoutes == trace::kMaxRoutes && trigger::kMaxNameBytes == trace::kMaxNameBytes);

constexpr int64_t kGraceNs = 1'000'000'000;  // for the host's code to return after the end

}  // namespace

Session::Session(OwnedOptions options, bool slow_clock)
    : options_(std::move(options)),
      slow_clock_(slow_clock),
      split_(Split(options_.values)),
      host_(&options_.values, &lifetime_),
      depths_(&options_.values, slow_clock, &lifetime_, &host_, &wake_,
              [this] { threads_.Start(OwnThreads::Role::kTeller, [this] { depths_.Tell(); }); }),
      meter_(split_, slow_clock, &lifetime_, &counts_, &threads_, &depths_),
      pending_(&options_.values),
      handover_(&lifetime_, &wake_),
      pace_(options_.values.worker_cpu_percent, &lifetime_, &worker_timer_),
      files_(&options_, &lifetime_, &host_, &pace_, &counts_),
      judging_(RowBytes(split_), &lifetime_, &host_, &pace_, &files_, &counts_, [this] { return WriteWaiting(); }) {}

Session::~Session() {
  Stop(0);
  if (is_claimed_) trace::ReleaseProcess();
}

std::shared_ptr<Session> Session::Start(const Options& options, Status* status) noexcept {
  try {
    if (IsSwitchedOff()) {
      *status = Status(StatusCode::kDisabled, "switched off by the environment variable PITOT_OFF");
      return nullptr;
    }
    OwnedOptions owned;
    if (*status = CheckAndCopy(options, &owned); !status->ok()) return nullptr;
    bool available = false;
    const bool slow_clock = trace::NeedsSlowClock(options.clock, &available);
    if (!available) {
      const char* why_not = "";
      trace::CycleCounterIsInvariant(&why_not);
      *status = Error(StatusCode::kUnavailable, "Options::clock is kCycleCounter, but %s", why_not);
      return nullptr;
    }
    const std::shared_ptr<Session> session(new Session(std::move(owned), slow_clock), [](Session* it) {
      // In the child of a fork its threads are gone and its locks may be held forever: it is left alone.
      if (it->lifetime_.IsOfThisProcess()) delete it;
    });
    if (const char* other = trace::ClaimProcess()) {
      *status = Error(StatusCode::kAlreadyRunning, "a recorder is running in this process already, from %s", other);
      return nullptr;
    }
    session->is_claimed_ = true;
    if (*status = session->files_.OpenDirectory(); !status->ok()) return nullptr;
    if (*status = session->StartThreads(); !status->ok()) return nullptr;
    return session;
  } catch (const std::exception& e) {
    *status = Error(StatusCode::kResourceExhausted, "cannot start the recorder: %s", e.what());
    return nullptr;
  }
}

Status Session::StartThreads() {
  if (Status s = files_.AddBuiltIns(); !s.ok()) return s;
  if (!trace::WatchForks()) return Status(StatusCode::kResourceExhausted, "pthread_atfork failed");
  if (!reserve_.Map(split_.snapshot_reserve))
    return Status(StatusCode::kResourceExhausted, "no memory for the snapshot reserve");
  if (!trace::OpenRequests(options_.values.max_open_requests))
    return Status(StatusCode::kResourceExhausted, "no memory for the table of requests");
  start_ = CalibrateTicks(slow_clock_);
  pending_.SetStart(start_.ticks);
  meter_.Begin();
  inbox_.Reserve();
  lifetime_.Begin();
  bool has_watcher = false;
  try {
    threads_.Start(OwnThreads::Role::kWatcher, [this] { Watch(); });
    has_watcher = true;
    threads_.Start(OwnThreads::Role::kWorker, [this] { Work(); });
  } catch (const std::exception& e) {
    if (!has_watcher) handover_.Close();
    Stop(0);
    return Error(StatusCode::kResourceExhausted, "cannot start a thread: %s", e.what());
  }
  const trace::RingLimits limits{split_.rings, options_.values.max_ring_bytes, options_.values.min_ring_bytes};
  if (!trace::OpenRings(limits, slow_clock_)) {
    Stop(0);
    return Status(StatusCode::kResourceExhausted, "pthread_key_create failed");
  }
  trace::SetRequestObserver(this, 0);
  trace::RefreshLateness();  // routes may remember the triggers of an earlier recorder
  return {};
}

void Session::GiveUpOn(const Incident& incident) noexcept {
  IncidentCounts::Add(&counts_.incidents_failed);
  host_.Log(LogLevel::kError, Error(StatusCode::kUnavailable, "incident %llu, %s: cut off: the recorder was stopped",
                                    static_cast<unsigned long long>(incident.number), incident.cause.c_str())
                                  .message());
}

Status Session::AddTrigger(std::unique_ptr<Trigger> trigger) noexcept {
  if (Status s = status(); !s.ok()) return s;
  if (trigger == nullptr)
    return host_.LogError(Status(StatusCode::kResourceExhausted, "the trigger is null: there was no memory for it"));
  if (Status s = trigger->Check(); !s.ok()) return host_.LogError(std::move(s));
  if (const char* route = trigger->Route(); route != nullptr && !trace::KeepRoute(route))
    host_.Log(LogLevel::kWarning,
              Error(StatusCode::kResourceExhausted,
                    "the route \"%s\" came after 63 others and is counted as (other): its trigger will not fire", route)
                  .message());
  {
    const std::lock_guard lock(mutex_);
    if (const uint32_t at = trigger_count_.load(); at < kMaxTriggers) {
      triggers_[at] = std::move(trigger);
      trigger_count_.store(at + 1, std::memory_order_release);
    }
  }
  if (trigger != nullptr)
    return host_.LogError(Status(StatusCode::kResourceExhausted, "a recorder takes at most 32 triggers"));
  trace::RefreshLateness();
  return {};
}

Status Session::AddSerializer(std::unique_ptr<Serializer> serializer) noexcept {
  if (Status s = status(); !s.ok()) return s;
  return host_.LogError(files_.Add(std::move(serializer)));
}

Status Session::AddCollector(std::unique_ptr<Collector> collector) noexcept {
  if (Status s = status(); !s.ok()) return s;
  return depths_.Add(std::move(collector));
}

Status Session::AskCollectors(Status (Collector::*ask)() noexcept) noexcept {
  if (Status s = status(); !s.ok()) return s;
  return depths_.Ask(ask);
}

Status Session::AddJudge(std::unique_ptr<Judge> judge) noexcept {
  if (Status s = status(); !s.ok()) return s;
  const Status added = host_.LogError(judging_.Add(std::move(judge)));
  if (added.ok()) wake_.Give();
  return added;
}

Status Session::SetDepth(Depth depth) noexcept {
  if (Status s = status(); !s.ok()) return s;
  return depths_.Set(depth);
}

Status Session::SetHooks(const Hooks& hooks) noexcept {
  if (Status s = status(); !s.ok()) return s;
  host_.SetHooks(hooks);
  return {};
}

Status Session::Ask(const char* reason) noexcept {
  if (Status s = status(); !s.ok()) return s;
  Firing firing;
  firing.cause = "manual";
  firing.detail = reason != nullptr ? reason : "";
  try {
    if (!pending_.HasPlace(firing.cause, trace::MonotonicNs())) {
      IncidentCounts::Add(&counts_.incidents_suppressed);
      return Status(StatusCode::kResourceExhausted, "Options::max_incidents_per_cause_and_hour is used up");
    }
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory for a trigger");
  }
  if (!Fire(firing)) return Status(StatusCode::kResourceExhausted, "too many triggers at once");
  return {};
}

Status Session::Flush(uint32_t timeout_ms) noexcept {
  if (Status s = status(); !s.ok()) return s;
  return handover_.Flush(timeout_ms);
}

// ---- On the host's threads. -----------------------------------------------------------------------------------------

void Session::OnFinish(const RequestView& request, uint64_t begin_ticks) noexcept {
  depths_.NoteRequest(request);
  const uint32_t count = trigger_count_.load(std::memory_order_acquire);
  OpenedSink sink(this, &Session::FireOn, begin_ticks);
  for (uint32_t i = 0; i < count; ++i) triggers_[i]->OnFinish(request, sink);
}

void Session::OnTokens(const RequestView& request, uint64_t begin_ticks, uint64_t gap_ns) noexcept {
  const uint32_t count = trigger_count_.load(std::memory_order_acquire);
  OpenedSink sink(this, &Session::FireOn, begin_ticks);
  for (uint32_t i = 0; i < count; ++i) triggers_[i]->OnTokens(request, gap_ns, sink);
}

void Session::OnBatch(uint32_t executor, uint32_t members, uint64_t duration_ns) noexcept {
  depths_.NoteBatch(executor, members, duration_ns);
}

void Session::OnLateMember() noexcept { depths_.NoteLateMember(); }

uint64_t Session::LateAfterNs(const char* route) noexcept {
  uint64_t least = 0;
  const uint32_t count = trigger_count_.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t ns = triggers_[i]->LateAfterNs(route);
    if (ns != 0 && (least == 0 || ns < least)) least = ns;
  }
  return least;
}

bool Session::Fire(const Firing& firing) noexcept { return FireOn(firing, detail::Clock(slow_clock_ ? 1 : 0)); }

bool Session::FireOn(const Firing& firing, uint64_t begin_ticks) noexcept {
  IncidentCounts::Add(&counts_.triggers_fired);
  if (!inbox_.Push(firing, detail::Clock(slow_clock_ ? 1 : 0), begin_ticks)) {
    IncidentCounts::Add(&counts_.incidents_suppressed);
    return false;
  }
  wake_.Give();
  return true;
}

// In this order: a firing counts as a beginning until its incident is pending.
bool Session::MayJoin() noexcept { return inbox_.IsBeginningDue() || pending_.IsPending(); }

void Session::Stop(uint32_t timeout_ms) noexcept {
  if (!lifetime_.IsOfThisProcess()) return;
  const std::lock_guard stop_lock(stop_mutex_);
  if (!lifetime_.End()) return;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  const bool is_quiet = trace::SetRequestObserver(nullptr, kGraceNs);
  handover_.BeginStop();
  pace_.Finish();
  depths_.BeginStop();
  wake_.Give();
  if (!handover_.AwaitEnd(deadline) || !depths_.AwaitTeller(deadline)) {
    lifetime_.GiveUp();
    handover_.NoteGivenUp();
  }
  meter_.CountLast();
  const bool is_hanging = JoinThreads() && !depths_.StopCollectors(kGraceNs);
  trace::CloseRings();
  trace::CloseRequests();
  is_claimed_ = false;
  trace::ReleaseProcess();
  if (!is_quiet || is_hanging) {
    // A thread of the host's is still inside. So its code and this live as long as the process, rather than too short.
    host_.Log(LogLevel::kWarning, is_quiet ? "a collector did not return in time after Stop; its memory is not freed"
                                           : "a trigger did not return in time after Stop; its memory is not freed");
    threads_.KeepForever(weak_from_this().lock());
    next_kept_ = g_kept.exchange(this);
  }
}

// Waits for the threads to see the end. A thread inside the host's code (a serializer, a hook, a trigger) that does not
// come back is left alone, with everything it works on.
bool Session::JoinThreads() noexcept {
  std::unique_ptr<Incident> given_up;
  if (lifetime_.HasGivenUp()) given_up = handover_.TakeWaiting();
  if (given_up != nullptr && !given_up->is_sample) GiveUpOn(*given_up);
  if (threads_.Join(weak_from_this().lock(), kGraceNs)) return true;
  host_.Log(LogLevel::kWarning,
            "a serializer, judge, hook, trigger or collector did not return in time after Stop; its thread is left");
  host_.Silence(kGraceNs);
  threads_.Detach();
  return false;
}

}  // namespace pitot::session
