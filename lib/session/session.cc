// SPDX-License-Identifier: Apache-2.0
#include "session/session.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/loader_lock.h"
#include "base/message.h"
#include "session/calibrate.h"
#include "session/health.h"
#include "session/short_turns.h"
#include "session/watch_pace.h"
#include "snapshot/signs.h"
#include "snapshot/texts.h"
#include "trace/clock.h"
#include "trace/process.h"
#include "trace/rest.h"
#include "trace/rings.h"

namespace pitot::session {
namespace {

using base::Error;

// Sessions that live as long as the process: a list, so that a leak checker finds them.
constinit std::atomic<Session*> g_kept{nullptr};

constexpr int64_t kGraceNs = 1'000'000'000;  // for the host's code to return after the end

constexpr char kForkedInsideLoader[] =
    "this process was forked while a thread of Pitot was loading a library: to load libraries here may fail or hang; "
    "fork before the parent's recorder starts, or some time after";

constexpr int64_t kAfterRestNs = 10'000'000;

int64_t WindowNs(const Options& options) {
  return (int64_t{options.pre_window_ms} + options.post_window_ms) * 1'000'000;
}

}  // namespace

Session::Session(OwnedOptions options, bool slow_clock)
    : options_(std::move(options)),
      slow_clock_(slow_clock),
      host_(&options_.values, &lifetime_),
      writer_throttle_(options_.values.worker_cpu_percent, &lifetime_, &writer_timer_),
      throttle_(options_.values.worker_cpu_percent, &lifetime_, &worker_timer_),
      depths_(&options_.values, slow_clock, &lifetime_, &host_, &wake_watcher_,
              [this] { threads_.Start(OwnThreads::Role::kTeller, [this] { depths_.Tell(); }); }),
      budget_(&options_, &depths_),
      meter_(&budget_, slow_clock, WindowNs(options_.values), &lifetime_, &counts_, &threads_, &depths_),
      files_(&options_, &lifetime_, &host_, &throttle_, &counts_),
      judging_(&lifetime_, &host_, &throttle_, &files_, &counts_),
      previous_lives_(&options_, &budget_, &host_, &throttle_),
      pipeline_(slow_clock, {&options_, &budget_, &lifetime_, &host_, &counts_, &wake_watcher_, &writer_throttle_,
                             &throttle_, &depths_, &meter_, &files_, &judging_, &self_check_}),
      triggers_(slow_clock, &host_, &pipeline_) {}

Session::~Session() {
  Stop(0);
  if (is_claimed_) trace::ReleaseProcess();
}

// ---- The start. -----------------------------------------------------------------------------------------------------

std::shared_ptr<Session> Session::Start(const Options& options, Status* status) noexcept {
  try {
    if (IsSwitchedOff()) {
      *status = Status(StatusCode::kDisabled, "switched off by the environment variable PITOT_OFF");
      return nullptr;
    }
    OwnedOptions owned;
    if (*status = CheckAndCopy(options, &owned); !status->ok()) return nullptr;
    // The host may change its directory later.
    owned.black_box_directory = AbsolutePath(owned.black_box_directory);
    owned.incident_directory = AbsolutePath(owned.incident_directory);
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
    if (base::WasForkedInsideLoader()) session->host_.Log(LogLevel::kWarning, kForkedInsideLoader);
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
  if (!trace::WatchForks() || !base::HoldForksForLoader())
    return Status(StatusCode::kResourceExhausted, "pthread_atfork failed");
  if (!pipeline_.MapReserve()) return Status(StatusCode::kResourceExhausted, "no memory for the snapshot reserve");
  const trace::ClockReading start = CalibrateTicks(slow_clock_);
  std::vector<std::string> removed;
  const Status with_box = black_box_.Begin(options_, budget_.Now(), slow_clock_, start, &pipeline_, &removed);
  for (const std::string& line : removed) host_.Log(LogLevel::kWarning, line.c_str());
  if (!with_box.ok()) host_.Log(LogLevel::kWarning, with_box.message());
  if (!trace::OpenRequests(options_.values.max_open_requests, black_box_.box()))
    return Status(StatusCode::kResourceExhausted, "no memory for the table of requests");
  pipeline_.Begin(start);
  meter_.Begin();
  lifetime_.Begin();
  bool has_watcher = false;
  try {
    threads_.Start(OwnThreads::Role::kWatcher, [this] { Watch(); });
    has_watcher = true;
    threads_.Start(OwnThreads::Role::kWriter, [this] { pipeline_.WriteDumps(); });
    threads_.Start(OwnThreads::Role::kWorker, [this] {
      pipeline_.EnterWorker();
      previous_lives_.Recover();
      pipeline_.Work();
    });
  } catch (const std::exception& e) {
    if (!has_watcher) pipeline_.Close();
    Stop(0);
    return Error(StatusCode::kResourceExhausted, "cannot start a thread: %s", e.what());
  }
  const trace::RingLimits limits{budget_.Now().rings, options_.values.max_ring_bytes, options_.values.min_ring_bytes,
                                 LargestRingBytes(options_.values)};
  if (!trace::OpenRings(limits, slow_clock_, black_box_.box())) {
    Stop(0);
    return Status(StatusCode::kResourceExhausted, "pthread_key_create failed");
  }
  trace::SetRequestObserver(this, 0);
  trace::RefreshLateness();  // routes may remember the triggers of an earlier recorder
  return HandleEnds();
}

Status Session::HandleEnds() {
  const Options& options = options_.values;
  if (options.handle_ends == Ends::kNone) return {};
  try {
    if (!ends::Begin(options.handle_ends, options.end_grace_ms, weak_from_this())) throw std::bad_alloc();
    threads_.Start(OwnThreads::Role::kEnds, [] { ends::Serve(); });
    return {};
  } catch (const std::exception& e) {
    Stop(0);
    return Error(StatusCode::kResourceExhausted, "cannot handle ends of the process: %s", e.what());
  }
}

// ---- For the host. --------------------------------------------------------------------------------------------------

Status Session::AddTrigger(std::unique_ptr<Trigger> trigger) noexcept {
  if (Status s = status(); !s.ok()) return s;
  try {
    const std::optional<std::string> tokens_of = SelfCheck::TokensOf(trigger.get());
    const Status added = host_.LogError(triggers_.Add(std::move(trigger)));
    if (added.ok() && tokens_of) self_check_.NoteTokens(*tokens_of);
    if (added.ok()) wake_watcher_.Give();  // may have to watch more
    return added;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory for a trigger");
  }
}

Status Session::AddSerializer(std::unique_ptr<Serializer> serializer) noexcept {
  if (Status s = status(); !s.ok()) return s;
  return host_.LogError(files_.Add(std::move(serializer)));
}

Status Session::AddCollector(std::unique_ptr<Collector> collector) noexcept {
  if (Status s = status(); !s.ok()) return s;
  return depths_.Add(std::move(collector));
}

Status Session::AddJudge(std::unique_ptr<Judge> judge) noexcept {
  if (Status s = status(); !s.ok()) return s;
  if (judge != nullptr) judge->LimitMemory(budget_.AddJudge());
  const Status added = host_.LogError(judging_.Add(std::move(judge)));
  if (added.ok()) wake_watcher_.Give();
  return added;
}

Status Session::SetHooks(const Hooks& hooks) noexcept {
  if (Status s = status(); !s.ok()) return s;
  host_.SetHooks(hooks);
  return {};
}

Status Session::SetDepth(Depth depth) noexcept {
  if (Status s = status(); !s.ok()) return s;
  return depths_.Set(depth);
}

Status Session::AskCollector(const char* name, Status (Collector::*ask)() noexcept) noexcept {
  if (name == nullptr) return Status(StatusCode::kInvalidArgument, "null in place of a collector's name");
  if (Status s = status(); !s.ok()) return s;
  return depths_.Ask(name, ask);
}

Status Session::Ask(const char* reason) noexcept {
  if (Status s = status(); !s.ok()) return s;
  return pipeline_.Ask(reason);
}

Status Session::Flush(uint32_t timeout_ms) noexcept {
  if (Status s = status(); !s.ok()) return s;
  return pipeline_.Flush(timeout_ms);
}

Health Session::GetHealth(uint32_t stalled_after_ms) noexcept {
  if (!status().ok()) return {};
  HealthLimits limits;
  limits.ticks_per_ns = TicksPerNs();
  limits.stalled_after_ns = uint64_t{stalled_after_ms} * 1'000'000;
  try {
    snapshot::Signs signs = snapshot::OwnSigns(slow_clock_);
    NoteCpu(getpid(), limits, &signs);
    return JudgeHealth(signs, limits, snapshot::OwnTexts());
  } catch (const std::bad_alloc&) {
    return {};
  }
}

void Session::FlushAtEnd(ends::HostState host, uint32_t grace_ms) noexcept {
  if (!lifetime_.IsOfThisProcess()) return;
  std::optional<HostCalls::Muted> muted;
  if (host == ends::HostState::kBroken) muted.emplace(&host_);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(grace_ms);
  // Another thread may be in Stop, which finishes them, too.
  if (!pipeline_.FlushNow(grace_ms).ok()) pipeline_.AwaitEnd(deadline);
  if (host == ends::HostState::kWhole) BlackBox::RemoveBeforeTermination();
}

// ---- On the host's threads. -----------------------------------------------------------------------------------------

void Session::OnFinish(const RequestView& request, uint64_t begin_ticks) noexcept {
  depths_.NoteRequest(request);
  triggers_.OnFinish(request, begin_ticks);
}

void Session::OnTokens(const RequestView& request, uint64_t before_ticks, uint64_t gap_ns) noexcept {
  triggers_.OnTokens(request, before_ticks, gap_ns);
}

void Session::OnBatch(uint32_t executor, uint32_t members, uint64_t duration_ns) noexcept {
  depths_.NoteBatch(executor, members, duration_ns);
}

void Session::OnLateMember() noexcept { depths_.NoteLateMember(); }

void Session::OnWork() noexcept {
  has_work_begun_.store(true);
  wake_watcher_.Give();
}

uint64_t Session::LateAfterNs(const char* route) noexcept { return triggers_.LateAfterNs(route); }

// ---- The watcher. ---------------------------------------------------------------------------------------------------

void Session::Watch() noexcept {
  pthread_setname_np(pthread_self(), "pitot-watch");
  AskForShortTurns();
  trace::Rest rest;
  OpenWork open;
  for (;;) {
    const Triggers::Watched watched = triggers_.WatchedWork();
    const bool is_watching = watched.requests || watched.scopes || depths_.IsGoverned();
    const int64_t now_ns = base::ClockNs(CLOCK_MONOTONIC);
    const bool is_at_rest = rest.May(now_ns) && !pipeline_.HasWork();
    const int64_t longest_ns = LongestSleepNs(
        {is_watching, watched.scopes, is_at_rest, open.scope_open_ns, is_at_rest ? depths_.DueInNs() : INT64_MAX});
    wake_watcher_.AwaitUntil(now_ns + std::min({longest_ns, open.late_in_ns, pipeline_.DueInNs()}));
    wake_watcher_.TakeAll();  // one look serves all wake-ups
    if (has_work_begun_.exchange(false)) {
      // A tick later: not while that work has just begun, perhaps on this CPU.
      wake_watcher_.AwaitUntil(base::ClockNs(CLOCK_MONOTONIC) + kAfterRestNs);
      wake_watcher_.TakeAll();
      trace::WakeResting();
    }
    const bool is_stopping = pipeline_.IsStopping();
    if (options_.values.handle_ends != Ends::kNone) ends::Watch();
    try {
      pipeline_.CollectFirings();
      open = is_stopping ? OpenWork() : LookAtOpenWork(watched);
      pipeline_.CopyIfDue(is_stopping);
      if (!is_stopping) pipeline_.TakeSampleIfDue();
      throttle_.HurryIfLate();
      meter_.NoteRings();
      if (black_box_.Look(counts_)) LogRemovedBox();
      if (!is_stopping && !pipeline_.HasPending()) meter_.GrowRings();  // not before a copy
    } catch (const std::exception& e) {
      pipeline_.Fail(e);
    }
    if (is_stopping && !pipeline_.HasPending()) return pipeline_.Close();
  }
}

void Session::LogRemovedBox() noexcept {
  host_.Log(LogLevel::kWarning,
            Error(StatusCode::kUnavailable,
                  "the black box %s was removed: if this process dies, nobody finds what it did. Stop and start the "
                  "recorder for a new one",
                  black_box_.path().c_str())
                .message());
}

// Looks for stalls and for late requests, and lets the governor choose.
Session::OpenWork Session::LookAtOpenWork(const Triggers::Watched& watched) noexcept {
  OpenWork open;
  if (watched.requests) triggers_.LookForStalledRequests();
  if (watched.scopes) open.scope_open_ns = triggers_.LookForStalledScopes();
  // The governor may be new since the sleep. Asked again, so that the first incident has its state.
  if (!depths_.IsGoverned()) return open;
  open.late_in_ns = depths_.ArmForLateRequests();
  depths_.Govern();
  return open;
}

// ---- The end. -------------------------------------------------------------------------------------------------------

void Session::Stop(uint32_t timeout_ms) noexcept {
  if (!lifetime_.IsOfThisProcess()) return;
  const base::MutexLock stop_lock(&stop_mutex_);
  if (!lifetime_.End()) return;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  const bool is_quiet = trace::SetRequestObserver(nullptr, kGraceNs);
  pipeline_.BeginStop();
  writer_throttle_.Finish();
  throttle_.Finish();
  depths_.BeginStop();
  wake_watcher_.Give();
  if (!pipeline_.AwaitEnd(deadline) || !depths_.AwaitTeller(deadline)) {
    lifetime_.GiveUp();
    pipeline_.NoteGivenUp();
    host_.NoteGivenUp();
  }
  meter_.CountLast();
  if (lifetime_.HasGivenUp()) pipeline_.GiveUpWaiting();
  if (options_.values.handle_ends != Ends::kNone) ends::Close();
  const bool are_joined = JoinThreads();
  const bool is_hanging = are_joined && !depths_.StopCollectors(kGraceNs);
  trace::CloseGate();
  if (!black_box_.EndLooks(kGraceNs) || !trace::CloseRings(are_joined ? INT64_MAX : kGraceNs)) {
    black_box_.LeaveAtExit();
    // A thread left behind is inside of a ring or of the black box, for example on a disk that does not answer.
    host_.Log(LogLevel::kWarning,
              "a thread of Pitot is still reading after Stop; its memory is not freed, and this process cannot record "
              "again");
    threads_.KeepForever(weak_from_this().lock());
    next_kept_ = g_kept.exchange(this);
    return;
  }
  trace::CloseRequests();
  black_box_.End();
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
  if (threads_.Join(weak_from_this().lock(), kGraceNs)) return true;
  host_.Log(LogLevel::kWarning,
            "a serializer, judge, hook, trigger or collector did not return in time after Stop; its thread is left");
  pipeline_.GiveUpCases();
  host_.Silence(kGraceNs);
  threads_.Detach();
  return false;
}

}  // namespace pitot::session
