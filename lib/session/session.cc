// SPDX-License-Identifier: Apache-2.0
#include "session/session.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "assemble/assemble.h"
#include "base/message.h"
#include "pitot/recorder.h"
#include "pitot/serialize/dump.h"
#include "pitot/serialize/perfetto.h"
#include "pitot/serialize/report.h"
#include "session/calibrate.h"
#include "snapshot/ring_reader.h"
#include "trace/names.h"
#include "trace/process.h"
#include "trace/rings.h"
#include "trigger/firing_rules.h"

namespace pitot::session {
namespace {

// Sessions that live for ever: a list, so that a leak checker finds them.
constinit std::atomic<Session*> g_kept{nullptr};

using base::Error;

// The triggers keep a slot for each route and copies of names.
static_assert(trigger::kMaxRoutes == trace::kMaxRoutes && trigger::kMaxNameBytes == trace::kMaxNameBytes);

constexpr int64_t kTickNs = 10'000'000;      // between looks for stalls
constexpr int64_t kIdleTickNs = 50'000'000;  // where nothing watches open work: firings wake the watcher themselves
constexpr uint64_t kStallNoticedNs = 10'000'000;
constexpr uint64_t kAgesNs = 1'000'000'000;         // between notes on how far rings have been written
constexpr int64_t kLongestPostNs = 60'000'000'000;  // as Options::post_window_ms
constexpr int64_t kPatienceNs = 2'000'000'000;      // for the worker to write an incident at idle priority
constexpr uint64_t kGraceNs = 1'000'000'000;        // for code of the host's to return once it is over
// How much CPU time the worker may use at once before its share is enforced.
constexpr double kWorkerBurstNs = 100e6;

int64_t CpuNs(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

double TicksPerNs() {
  return static_cast<double>(__atomic_load_n(&detail::g_ticks_per_ns_q32, __ATOMIC_RELAXED)) / 4294967296.0;
}

// A scope that is open for long.
struct LongOpen {
  snapshot::OpenScopeCopy scope;
  uint32_t thread;
};

std::vector<LongOpen> FindLongOpen(uint64_t now) {
  std::vector<LongOpen> found;
  std::vector<snapshot::OpenScopeCopy> open;
  const uint64_t long_ago = detail::TicksOf(kStallNoticedNs);
  const trace::PinnedRings rings;
  for (const trace::ThreadRing* ring : rings) {
    if (ring->state != trace::RingState::kLive) continue;
    open.clear();
    snapshot::CopyOpenScopes(*ring, &open);
    for (const auto& scope : open) {
      if (now >= scope.begin_ticks + long_ago) found.push_back({scope, ring->number});
    }
  }
  return found;
}

// A host's signals are for the host's threads. Those that a thread raises by a mistake of its own stay as they are: its
// handlers of crashes must see ours, too.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) sigdelset(&all, signal);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// How many requests they are about.
uint64_t SlowRequests(const std::vector<QueuedFiring>& firings) {
  uint64_t requests = 0;
  for (auto firing = firings.begin(); firing != firings.end(); ++firing) {
    const auto is_it = [&](auto& other) { return other.request == firing->request; };
    requests += firing->request != 0 && std::none_of(firings.begin(), firing, is_it);
  }
  return requests;
}

std::string Format(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

Session::Session(OwnedOptions options)
    : options_(std::move(options)),
      fork_epoch_(trace::ForkEpoch()),
      split_(Split(options_.values)),
      budget_(options_.values.max_incidents_per_cause_and_hour) {
  sem_init(&wake_, 0, 0);
}

Session::~Session() {
  Stop(0);
  if (is_claimed_) trace::ReleaseProcess();
  sem_destroy(&wake_);
}

std::shared_ptr<Session> Session::Start(const Options& options, Status* status) noexcept {
  try {
    if (IsSwitchedOff()) {
      *status = Status(StatusCode::kDisabled, "switched off by the environment variable PITOT_OFF");
      return nullptr;
    }
    OwnedOptions owned;
    if (*status = CheckAndCopy(options, &owned); !status->ok()) return nullptr;
    const std::shared_ptr<Session> session(new Session(std::move(owned)), [](Session* it) {
      // In the child of a fork its threads are not there and its locks may be held for ever: it is left alone.
      if (it->IsOfThisProcess()) delete it;
    });
    bool available = false;
    session->slow_clock_ = trace::NeedsSlowClock(options.clock, &available);
    if (!available) {
      const char* why_not = "";
      trace::CycleCounterIsInvariant(&why_not);
      *status = Error(StatusCode::kUnavailable, "Options::clock is kCycleCounter, but %s", why_not);
      return nullptr;
    }
    if (const char* other = trace::ClaimProcess()) {
      *status = Error(StatusCode::kAlreadyRunning, "a recorder is running in this process already, that of %s", other);
      return nullptr;
    }
    session->is_claimed_ = true;
    if (*status = session->directory_.Open(session->options_.incident_directory); !status->ok()) return nullptr;
    if (*status = session->StartThreads(); !status->ok()) return nullptr;
    return session;
  } catch (const std::exception& e) {
    *status = Error(StatusCode::kResourceExhausted, "cannot start the recorder: %s", e.what());
    return nullptr;
  }
}

Status Session::StartThreads() {
  serializers_.push_back(MakePerfettoSerializer());
  serializers_.push_back(MakeDumpSerializer());
  serializers_.push_back(MakeReportSerializer());
  for (const auto& serializer : serializers_) {
    if (serializer == nullptr) return Status(StatusCode::kResourceExhausted, "no memory for the serializers");
  }
  if (!trace::WatchForks()) return Status(StatusCode::kResourceExhausted, "pthread_atfork failed");
  if (!reserve_.Map(split_.snapshot_reserve))
    return Status(StatusCode::kResourceExhausted, "no memory for the snapshot reserve");
  if (!trace::OpenRequests(options_.values.max_open_requests))
    return Status(StatusCode::kResourceExhausted, "no memory for the table of requests");
  start_ = CalibrateTicks(slow_clock_);
  scope_cost_ns_ = CalibrateScopeCost(slow_clock_);
  collected_.reserve(kMaxFirings);
  start_cpu_ns_ = CpuNs(CLOCK_PROCESS_CPUTIME_ID);
  names_refused_before_ = trace::NamesRefused();
  running_.store(true);
  try {
    const SignalsBlocked blocked;  // the threads inherit it
    const auto start = [this](std::thread* thread, void (Session::*run)()) {
      *thread = std::thread([this, run] {
        (this->*run)();
        EndThread();
      });
      const std::lock_guard lock(mutex_);
      ++threads_running_;
    };
    start(&watcher_, &Session::Watch);
    start(&worker_, &Session::Work);
    clockid_t clock;
    if (pthread_getcpuclockid(watcher_.native_handle(), &clock) == 0) own_clocks_[0].store(clock);
    if (pthread_getcpuclockid(worker_.native_handle(), &clock) == 0) own_clocks_[1].store(clock);
  } catch (const std::exception& e) {
    Stop(0);
    return Error(StatusCode::kResourceExhausted, "cannot start a thread: %s", e.what());
  }
  const trace::RingLimits limits{split_.rings, options_.values.max_ring_bytes, options_.values.min_ring_bytes};
  if (!trace::OpenRings(limits, slow_clock_)) {
    Stop(0);
    return Status(StatusCode::kResourceExhausted, "pthread_key_create failed");
  }
  trace::SetRequestObserver(this, 0);
  trace::RefreshLateness();  // routes may remember the triggers of a former recorder
  return {};
}

bool Session::IsOfThisProcess() const noexcept { return fork_epoch_ == trace::ForkEpoch(); }

// True if the host may be called now; then LeaveHost must follow.
bool Session::EnterHost() const noexcept {
  // Sequentially consistent, with is_silent_: either Stop sees this call or the call sees that it is over.
  inside_host_.fetch_add(1);
  if (!is_silent_.load()) return true;
  inside_host_.fetch_sub(1);
  return false;
}

void Session::LeaveHost() const noexcept { inside_host_.fetch_sub(1); }

void Session::Log(LogLevel level, const char* message) const noexcept {
  if (options_.values.log == nullptr || !EnterHost()) return;
  CallLog(options_.values, level, message);
  LeaveHost();
}

Status Session::status() const noexcept {
  if (!IsOfThisProcess()) return Status(StatusCode::kNotRunning, "the recorder belongs to the parent of this process");
  if (!running_.load()) return Status(StatusCode::kNotRunning, "the recorder was stopped");
  return {};
}

// Also says a failure through the log: hosts rarely look at what Add returns.
Status Session::Said(Status status) const noexcept {
  if (!status.ok()) Log(LogLevel::kError, status.message());
  return status;
}

Status Session::AddTrigger(std::unique_ptr<Trigger> trigger) noexcept {
  if (Status s = status(); !s.ok()) return s;
  if (trigger == nullptr) return Said(Status(StatusCode::kResourceExhausted, "no memory for a trigger"));
  if (Status s = trigger->Check(); !s.ok()) return Said(std::move(s));
  {
    const std::lock_guard lock(mutex_);
    const uint32_t at = trigger_count_.load();
    if (at == kMaxTriggers) return Said(Status(StatusCode::kResourceExhausted, "a recorder takes at most 32 triggers"));
    triggers_[at] = std::move(trigger);
    trigger_count_.store(at + 1, std::memory_order_release);
  }
  trace::RefreshLateness();
  return {};
}

Status Session::AddSerializer(std::unique_ptr<Serializer> serializer) noexcept {
  if (Status s = status(); !s.ok()) return s;
  if (serializer == nullptr) return Said(Status(StatusCode::kResourceExhausted, "no memory for a serializer"));
  const std::string_view name = serializer->FileName() != nullptr ? serializer->FileName() : "";
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  if (name.empty() || name.size() > 100 || name[0] == '.' || !std::all_of(name.begin(), name.end(), plain))
    return Said(
        Status(StatusCode::kInvalidArgument, "Serializer::FileName must be 1 to 100 letters, digits, '.', '_' or '-'"));
  try {
    std::shared_ptr<Serializer> shared = std::move(serializer);
    const std::lock_guard lock(mutex_);
    for (auto& there : serializers_) {
      if (name == there->FileName()) {
        there.swap(shared);
        return {};
      }
    }
    serializers_.push_back(std::move(shared));
  } catch (const std::bad_alloc&) {
    return Said(Status(StatusCode::kResourceExhausted, "no memory for another serializer"));
  }
  return {};
}

Status Session::SetHooks(const Hooks& hooks) noexcept {
  if (Status s = status(); !s.ok()) return s;
  const std::lock_guard lock(mutex_);
  hooks_ = hooks;
  return {};
}

Status Session::Ask(const char* reason) noexcept {
  if (Status s = status(); !s.ok()) return s;
  Firing firing;
  firing.cause = "manual";
  firing.detail = reason != nullptr ? reason : "";
  try {
    const std::lock_guard lock(budget_mutex_);
    if (!is_pending_.load() && !budget_.Has(firing.cause, trace::MonotonicNs())) {
      incidents_suppressed_.fetch_add(1, std::memory_order_relaxed);
      return Status(StatusCode::kResourceExhausted, "Options::max_incidents_per_cause_and_hour are used up");
    }
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory for a trigger");
  }
  if (!Fire(firing)) return Status(StatusCode::kResourceExhausted, "too many triggers at once");
  return {};
}

Status Session::Flush(uint32_t timeout_ms) noexcept {
  if (Status s = status(); !s.ok()) return s;
  std::unique_lock lock(mutex_);
  const uint64_t asked = ++flush_asked_;
  sem_post(&wake_);
  changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return flush_done_ >= asked || stopping_; });
  if (flush_done_ >= asked) return {};
  if (stopping_) return Status(StatusCode::kUnavailable, "incidents may be missing; the recorder is being stopped");
  return Status(StatusCode::kUnavailable, "incidents are still being written; the time is up");
}

// ---- On the host's threads. -----------------------------------------------------------------------------------------

void Session::OnFinish(const RequestView& request) noexcept {
  const uint32_t count = trigger_count_.load(std::memory_order_acquire);
  OpenedSink sink(this, &Session::FireOn, request.latency_ns);
  for (uint32_t i = 0; i < count; ++i) triggers_[i]->OnFinish(request, sink);
}

void Session::OnTokens(const RequestView& request, uint64_t gap_ns) noexcept {
  const uint32_t count = trigger_count_.load(std::memory_order_acquire);
  OpenedSink sink(this, &Session::FireOn, request.latency_ns);
  for (uint32_t i = 0; i < count; ++i) triggers_[i]->OnTokens(request, gap_ns, sink);
}

uint64_t Session::LateAfterNs(const char* route) noexcept {
  uint64_t least = 0;
  const uint32_t count = trigger_count_.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t ns = triggers_[i]->LateAfterNs(route);
    if (ns != 0 && (least == 0 || ns < least)) least = ns;
  }
  return least;
}

bool Session::Fire(const Firing& firing) noexcept { return FireOn(firing, 0); }

bool Session::FireOn(const Firing& firing, uint64_t open_ns) noexcept {
  triggers_fired_.fetch_add(1, std::memory_order_relaxed);
  const uint64_t now = detail::Clock(slow_clock_ ? 1 : 0);
  // Before it can be taken: what may join it is welcome from now on.
  if (!firing.joins_only) beginnings_.fetch_add(1);
  if (!firing_queue_.Push(firing, now, BeginTicks(now, open_ns))) {
    if (!firing.joins_only) beginnings_.fetch_sub(1);
    incidents_suppressed_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  sem_post(&wake_);
  return true;
}

uint64_t Session::BeginTicks(uint64_t now_ticks, uint64_t open_ns) const noexcept {
  const uint64_t open_ticks = detail::TicksOf(open_ns);
  return now_ticks > open_ticks ? now_ticks - open_ticks : 0;
}

// In this order: a firing counts as a beginning until its incident is pending.
bool Session::MayJoin() noexcept { return beginnings_.load() != 0 || is_pending_.load(); }

// ---- The watcher. ---------------------------------------------------------------------------------------------------

void Session::Watch() noexcept {
  pthread_setname_np(pthread_self(), "pitot-watch");
  for (;;) {
    const uint32_t count = trigger_count_.load(std::memory_order_acquire);
    const auto any = [&](auto asks) { return std::any_of(triggers_, triggers_ + count, asks); };
    const bool watches_requests = any([](auto& trigger) { return trigger->WatchesOpenRequests(); });
    const bool watches_scopes = any([](auto& trigger) { return trigger->WatchesOpenScopes(); });
    timespec until{};
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t sleep_ns = watches_requests || watches_scopes ? kTickNs : kIdleTickNs;
    if (pending_ != nullptr) {
      // One that is due already waits for the reserve: who frees it wakes this thread.
      const int64_t left_ns = pending_->due_ns - trace::MonotonicNs();
      if (left_ns > 0) sleep_ns = std::min(left_ns, sleep_ns);
    }
    until.tv_nsec += sleep_ns;
    if (until.tv_nsec >= 1'000'000'000) ++until.tv_sec, until.tv_nsec -= 1'000'000'000;
    if (sem_clockwait(&wake_, CLOCK_MONOTONIC, &until) == 0) {
      while (sem_trywait(&wake_) == 0) {}  // one look serves all who woke it
    }
    bool stopping;
    {
      const std::lock_guard lock(mutex_);
      stopping = stopping_;
    }
    try {
      CollectFirings();
      if (watches_requests && !stopping) LookForStalledRequests();
      if (watches_scopes && !stopping) LookForStalledScopes();
      CopyIfDue(stopping);
      HurryWorker();
      NoteRingAges();
    } catch (const std::exception& e) {
      Log(LogLevel::kError, Error(StatusCode::kResourceExhausted, "no incident: %s", e.what()).message());
      incidents_failed_.fetch_add(1, std::memory_order_relaxed);
      pending_.reset();
      is_pending_.store(false);
    }
    if (stopping && pending_ == nullptr) {
      const std::lock_guard lock(mutex_);
      watcher_done_ = true;
      changed_.notify_all();
      return;
    }
  }
}

// An incident that is not written after a while goes on at normal priority, in its share of the CPU.
void Session::HurryWorker() noexcept {
  const int64_t since_ns = handed_over_ns_.load();
  if (since_ns != 0 && CpuNs(CLOCK_MONOTONIC) - since_ns > kPatienceNs) priority_.Hurry();
}

// What the last line of each thread calls.
void Session::EndThread() noexcept {
  std::shared_ptr<Session> last;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  if (--threads_running_ == 0) last = std::move(keep_alive_);
  changed_.notify_all();
}

void Session::CollectFirings() {
  uint64_t asked;
  {
    const std::lock_guard lock(mutex_);
    asked = flush_asked_;
  }
  bool is_more = true;
  while (is_more && collected_.size() < kMaxFirings) {
    collected_.emplace_back();  // its room was reserved at the start
    is_more = firing_queue_.Pop(&collected_.back());
    if (!is_more) collected_.pop_back();
  }
  // Those that may begin an incident, then those that only join, each in their order of time; taken from the back.
  std::stable_sort(collected_.begin(), collected_.end(), [](auto& a, auto& b) {
    return a.joins_only != b.joins_only ? b.joins_only : a.at_ticks < b.at_ticks;
  });
  std::reverse(collected_.begin(), collected_.end());
  while (!collected_.empty()) {
    const QueuedFiring firing = collected_.back();
    // What it joins may be on its way still.
    if (firing.joins_only && pending_ == nullptr && beginnings_.load() != 0) break;
    collected_.pop_back();
    const struct Taken {
      ~Taken() { *beginnings -= begins; }
      std::atomic<uint64_t>* beginnings;
      uint64_t begins;
    } taken{&beginnings_, firing.joins_only ? 0u : 1u};
    TakeFiring(firing);
  }
  if (pending_ != nullptr || is_more || !collected_.empty()) return;
  const std::lock_guard lock(mutex_);
  if (copied_ == nullptr && !worker_busy_ && flush_done_ < asked) {
    flush_done_ = asked;
    changed_.notify_all();
  }
}

void Session::TakeFiring(const QueuedFiring& firing) {
  const Options& o = options_.values;
  const int64_t now_ns = trace::MonotonicNs();
  const uint64_t pre_ms = firing.pre_window_ms != 0 ? firing.pre_window_ms : o.pre_window_ms;
  const uint64_t post_ms = firing.post_window_ms != 0 ? firing.post_window_ms : o.post_window_ms;
  const uint64_t pre_ticks = detail::TicksOf(pre_ms * 1'000'000);
  // The window reaches back to the beginning of the slow request, however slow it was; not to before the recorder.
  const uint64_t window_begin_ticks = std::max(
      start_.ticks, std::min(firing.at_ticks > pre_ticks ? firing.at_ticks - pre_ticks : 0, firing.begin_ticks));
  const int64_t due_ns = now_ns + static_cast<int64_t>(post_ms) * 1'000'000;
  if (pending_ != nullptr) {
    // One incident lists every slow request of its window.
    Incident& incident = *pending_;
    incident.window_begin_ticks = std::min(incident.window_begin_ticks, window_begin_ticks);
    const auto has_its_cause = [&](auto& other) { return std::strcmp(other.cause, firing.cause) == 0; };
    // Each cause gets its post window once: if every firing did, a storm would last until the rings forget its start.
    if (std::none_of(incident.firings.begin(), incident.firings.end(), has_its_cause))
      incident.due_ns = std::max(incident.due_ns, std::min(due_ns, incident.latest_due_ns));
    if (incident.firings.size() < kMaxFirings)
      incident.firings.push_back(firing);
    else
      ++incident.firings_unlisted;
    return;
  }
  const auto suppress = [this] { incidents_suppressed_.fetch_add(1, std::memory_order_relaxed); };
  if (firing.joins_only) return suppress();
  auto incident = std::make_unique<Incident>();
  incident->cause = firing.cause;
  incident->firings.push_back(firing);
  incident->window_begin_ticks = window_begin_ticks;
  incident->latest_due_ns = now_ns + kLongestPostNs;
  incident->due_ns = due_ns;
  const std::lock_guard lock(budget_mutex_);
  if (!budget_.Take(incident->cause, now_ns)) return suppress();
  incident->number = next_number_++;
  pending_ = std::move(incident);
  is_pending_.store(true);
}

// As FireOn, on the watcher and past the queue: all that stalls at one moment is one incident.
bool Session::TakeStall(const Firing& firing, uint64_t open_ns) noexcept {
  triggers_fired_.fetch_add(1, std::memory_order_relaxed);
  const uint64_t now = detail::Clock(slow_clock_ ? 1 : 0);
  QueuedFiring queued;
  queued.Set(firing, now, BeginTicks(now, open_ns));
  try {
    TakeFiring(queued);
    return true;
  } catch (const std::bad_alloc&) {
    incidents_suppressed_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
}

void Session::LookForStalledRequests() noexcept {
  trace::VisitOpenRequests(
      [](void* context, const trace::OpenRequest& open) {
        auto* session = static_cast<Session*>(context);
        const uint32_t count = session->trigger_count_.load(std::memory_order_acquire);
        OpenedSink sink(session, &Session::TakeStall, open.view.latency_ns);
        for (uint32_t i = 0; i < count; ++i) session->triggers_[i]->OnOpenRequest(open.view, sink);
      },
      this);
}

void Session::LookForStalledScopes() noexcept {
  try {
    const uint64_t now = detail::Clock(slow_clock_ ? 1 : 0);
    const double ticks_per_ns = TicksPerNs();
    for (const LongOpen& open : FindLongOpen(now)) {
      const SiteNames::Site& site = site_names_.At(open.scope.site, trace::MonotonicNs());
      const bool is_named = site.name_is_first_arg && open.scope.arg_words != 0;
      const std::string name(is_named ? trace::NameText(static_cast<uint32_t>(open.scope.args[0])) : site.name);
      const auto open_ns = static_cast<uint64_t>(static_cast<double>(now - open.scope.begin_ticks) / ticks_per_ns);
      const OpenScopeView view{name.c_str(), open.thread, open_ns, site.is_wait};
      OpenedSink sink(this, &Session::TakeStall, open_ns);
      const uint32_t count = trigger_count_.load(std::memory_order_acquire);
      for (uint32_t i = 0; i < count; ++i) triggers_[i]->OnOpenScope(view, sink);
    }
  } catch (const std::bad_alloc&) {
    // The next tick looks again.
  }
}

std::vector<RingAt> Session::LiveRings() const {
  const trace::PinnedRings pinned;
  std::vector<RingAt> rings;
  for (const trace::ThreadRing* ring : pinned) {
    if (ring->state != trace::RingState::kLive) continue;
    const uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);
    rings.push_back({ring->number, ring->attach_ticks, ring->floor, head, ring->mask + 1});
  }
  return rings;
}

void Session::NoteRingAges() noexcept {
  const uint64_t now = detail::Clock(slow_clock_ ? 1 : 0);
  if (now - ages_noted_ticks_ < detail::TicksOf(kAgesNs)) return;
  ages_noted_ticks_ = now;
  try {
    const std::vector<RingAt> rings = LiveRings();
    const std::lock_guard lock(ages_mutex_);
    ages_.Note(rings, now);
  } catch (const std::bad_alloc&) {
    // The next note fills the gap.
  }
}

void Session::CopyIfDue(bool at_once) {
  if (pending_ == nullptr || (!at_once && trace::MonotonicNs() < pending_->due_ns)) return;
  {
    std::unique_lock lock(mutex_);
    // The reserve still holds an incident before: this one waits, and takes in what fires meanwhile.
    if (reserve_in_use_) {
      if (!at_once) return;
      changed_.wait(lock, [this] { return !reserve_in_use_ || give_up_.load(); });
      if (give_up_.load()) {
        pending_.reset();
        is_pending_.store(false);
        return;
      }
    }
  }
  snapshot::TakeSnapshot(start_, slow_clock_, pending_->window_begin_ticks, reserve_.Whole(), &pending_->snapshot);
  is_pending_.store(false);
  const std::lock_guard lock(mutex_);
  copied_ = std::move(pending_);
  reserve_in_use_ = true;
  changed_.notify_all();
}

// ---- The worker. ----------------------------------------------------------------------------------------------------

bool Session::Proceed() noexcept {
  const double share = options_.values.worker_cpu_percent / 100.0;
  for (;;) {
    if (give_up_.load(std::memory_order_relaxed)) return false;
    const int64_t now_ns = CpuNs(CLOCK_MONOTONIC);
    const int64_t cpu_ns = CpuNs(CLOCK_THREAD_CPUTIME_ID);
    worker_tokens_ns_ += static_cast<double>(now_ns - worker_refilled_ns_) * share;
    worker_tokens_ns_ = std::min(worker_tokens_ns_, kWorkerBurstNs);
    worker_tokens_ns_ -= static_cast<double>(cpu_ns - worker_cpu_ns_);
    worker_refilled_ns_ = now_ns;
    worker_cpu_ns_ = cpu_ns;
    if (worker_tokens_ns_ >= 0) return true;
    const Awake awake(&priority_);
    std::unique_lock lock(mutex_);
    if (stopping_) return !give_up_.load();  // the host waits: finish
    changed_.wait_for(lock, std::chrono::nanoseconds(static_cast<int64_t>(-worker_tokens_ns_ / share)));
  }
}

void Session::Work() noexcept {
  pthread_setname_np(pthread_self(), "pitot-work");
  priority_.Enter();
  worker_refilled_ns_ = CpuNs(CLOCK_MONOTONIC);
  worker_cpu_ns_ = CpuNs(CLOCK_THREAD_CPUTIME_ID);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return copied_ != nullptr || watcher_done_; });
    if (copied_ == nullptr) return;
    const std::unique_ptr<Incident> incident = std::move(copied_);
    worker_busy_ = true;
    lock.unlock();
    WriteIncident(incident.get());
    lock.lock();
    worker_busy_ = false;
    if (!stopping_) priority_.Calm();
    changed_.notify_all();
    sem_post(&wake_);  // for a Flush, which the watcher answers
  }
}

// The trace of what was copied, whose room is then free: the next incident may be copied while this one is written.
model::Trace Session::TakeTrace(Incident* incident) {
  const struct Room {
    ~Room() {
      incident->snapshot = {};
      session->reserve_.GiveBackPages();
      const Awake awake(&session->priority_);
      const std::lock_guard lock(session->mutex_);
      session->reserve_in_use_ = false;
      session->changed_.notify_all();
      sem_post(&session->wake_);
    }
    Session* session;
    Incident* incident;
  } room{this, incident};
  return MakeTrace(*incident);
}

model::Trace Session::MakeTrace(const Incident& incident) {
  model::Trace trace = assemble::Assemble(incident.snapshot);
  trace.process_name = trace.strings.Add(options_.process_name);
  for (const QueuedFiring& firing : incident.firings) {
    model::FiringRow row;
    row.at_ns = incident.snapshot.clock.Ns(firing.at_ticks);
    row.request_id = firing.request;
    row.cause = trace.strings.Add(firing.cause);
    row.detail = trace.strings.Add(firing.detail);
    trace.firings.push_back(row);
  }
  std::stable_sort(trace.firings.begin(), trace.firings.end(), [](auto& a, auto& b) { return a.at_ns < b.at_ns; });
  AddAttributes(incident, &trace);
  return trace;
}

void Session::AddAttributes(const Incident& incident, model::Trace* trace) {
  const auto add = [trace](const char* key, const std::string& value) {
    trace->attributes.push_back({trace->strings.Add(key), trace->strings.Add(value)});
  };
  const Stats stats = StatsAwake();
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  add("pitot.version", Version());
  add("host", host);
  add("incident.number", std::to_string(incident.number));
  add("incident.cause", incident.cause);
  if (incident.firings_unlisted != 0) add("incident.firings_unlisted", std::to_string(incident.firings_unlisted));
  add("cost.recording", stats.recording_cpu_percent >= 0
                            ? Format("%.3f", stats.recording_cpu_percent) + " % of the process's CPU time (" +
                                  std::to_string(stats.events_recorded) + " events at " +
                                  Format("%.1f", stats.scope_cost_ns) + " ns, calibrated at the start)"
                            : "unknown");
  add("cost.own_threads", stats.own_threads_cpu_percent >= 0
                              ? Format("%.3f", stats.own_threads_cpu_percent) + " % of the process's CPU time"
                              : "unknown");
  add("memory.budget_bytes", std::to_string(options_.values.memory_budget_bytes));
  add("memory.rings_bytes", std::to_string(stats.memory.rings));
  add("threads.refused", std::to_string(stats.threads_refused));
  add("requests.refused", std::to_string(stats.requests_refused));
  add("requests.abandoned", std::to_string(stats.requests_abandoned));
  add("names.refused", std::to_string(stats.names_refused));
  add("labels.folded", std::to_string(stats.labels_folded));
  add("details.refused", std::to_string(stats.details_refused));
  add("scopes.misnested", std::to_string(stats.scopes_misnested));
  add("incidents.suppressed", std::to_string(stats.incidents_suppressed));
}

Status Session::WriteFiles(const Incident& incident, const model::Trace& trace, std::string* path) {
  if (Status s = directory_.Begin(incident.number, trace.clock.realtime_ns, incident.cause); !s.ok()) return s;
  std::vector<std::shared_ptr<Serializer>> serializers;
  {
    const Awake awake(&priority_);
    const std::lock_guard lock(mutex_);
    serializers = serializers_;
  }
  bool any = false;
  Status refused;
  for (const auto& serializer : serializers) {
    // Pays for what was used since the last write: the trace, or what a serializer did after its own.
    if (!Proceed()) {
      directory_.Abandon();
      return Status(StatusCode::kUnavailable, "cut off: the recorder was stopped");
    }
    Status said;
    if (Status s = directory_.AddFile(serializer.get(), trace, this, &said); !s.ok()) {
      directory_.Abandon();
      return s;
    }
    any = any || said.ok();
    if (said.ok()) continue;
    // The rest of the incident is worth having.
    Log(LogLevel::kError,
        Error(said.code(), "incident %llu is without %s: %s", static_cast<unsigned long long>(incident.number),
              serializer->FileName(), said.message())
            .message());
    files_failed_.fetch_add(1, std::memory_order_relaxed);
    refused = std::move(said);
  }
  if (!any) {
    directory_.Abandon();
    return refused;
  }
  if (Status s = directory_.Commit(path); !s.ok()) return s;
  directory_.Prune(options_.values.max_incidents_kept, options_.values.max_incident_directory_bytes);
  return {};
}

void Session::WriteIncident(Incident* taken) noexcept {
  const Incident& incident = *taken;
  std::string path;
  Status written;
  handed_over_ns_.store(CpuNs(CLOCK_MONOTONIC));
  priority_.BeIdle();
  try {
    Proceed();
    const model::Trace trace = TakeTrace(taken);
    if (directory_.IsOpen()) written = WriteFiles(incident, trace, &path);
  } catch (const std::exception& e) {
    directory_.Abandon();
    written = Error(StatusCode::kResourceExhausted, "cannot write it: %s", e.what());
  }
  priority_.BeNormal();
  handed_over_ns_.store(0);
  if (!written.ok()) {
    incidents_failed_.fetch_add(1, std::memory_order_relaxed);
    Log(LogLevel::kError,
        Error(written.code(), "incident %llu, %s: %s", static_cast<unsigned long long>(incident.number),
              incident.cause.c_str(), written.message())
            .message());
  } else if (directory_.IsOpen()) {
    incidents_written_.fetch_add(1, std::memory_order_relaxed);
    Log(LogLevel::kInfo, Error(StatusCode::kInternal, "incident: %s", path.c_str()).message());
  }
  TellHost(incident, path, written);
}

void Session::TellHost(const Incident& incident, const std::string& path, const Status& written) noexcept {
  Hooks hooks;
  {
    const std::lock_guard lock(mutex_);
    hooks = hooks_;
  }
  IncidentInfo info{};
  info.number = incident.number;
  info.cause = incident.cause.c_str();
  info.directory = path.empty() ? nullptr : path.c_str();
  info.slow_requests = SlowRequests(incident.firings);
  info.first_request = incident.firings.front().request;
  info.status = written;
  if (!EnterHost()) return;
  for (const auto hook : {hooks.on_incident, hooks.on_verdict}) {
    try {
      if (hook != nullptr) hook(hooks.context, info);
    } catch (...) {
      Log(LogLevel::kError, "a hook threw an exception");
    }
  }
  LeaveHost();
}

// ---- Stats and the end. ---------------------------------------------------------------------------------------------

// On the worker: asks for locks that the host's threads need, too.
Stats Session::StatsAwake() noexcept {
  const Awake awake(&priority_);
  return GetStats();
}

Stats Session::GetStats() noexcept {
  Stats stats{};
  stats.memory = split_;
  stats.triggers_fired = triggers_fired_.load();
  stats.incidents_written = incidents_written_.load();
  stats.incidents_suppressed = incidents_suppressed_.load();
  stats.incidents_failed = incidents_failed_.load();
  stats.files_failed = files_failed_.load();
  stats.scope_cost_ns = scope_cost_ns_;
  stats.recording_cpu_percent = stats.own_threads_cpu_percent = -1;
  if (!status().ok()) return stats;

  const trace::RingCounts rings = trace::CountRings();
  stats.ring_bytes_used = rings.bytes_used;
  stats.address_bytes_parked = rings.bytes_parked;
  stats.threads_recording = rings.live;
  stats.threads_retired = rings.retired;
  stats.events_recorded = rings.events;
  stats.threads_refused = rings.threads_refused;
  stats.events_refused = rings.events_refused;
  stats.scopes_closed_elsewhere = rings.closed_elsewhere;
  stats.scopes_misnested = rings.misnested;
  const trace::RequestCounts requests = trace::CountRequests();
  stats.requests_begun = requests.begun;
  stats.requests_finished = requests.finished;
  stats.requests_abandoned = requests.abandoned;
  stats.requests_open = requests.open;
  stats.requests_refused = requests.refused;
  stats.labels_folded = requests.labels_folded;
  stats.details_refused = requests.details_refused;
  stats.names_refused = trace::NamesRefused() - names_refused_before_;
  AddHistory(&stats);

  const auto process_ns = static_cast<double>(CpuNs(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns_);
  if (process_ns > 0) {
    stats.recording_cpu_percent = 100 * static_cast<double>(rings.events) * scope_cost_ns_ / process_ns;
    stats.own_threads_cpu_percent = 100 * static_cast<double>(OwnThreadsCpuNs()) / process_ns;
  }
  return stats;
}

void Session::AddHistory(Stats* stats) noexcept {
  try {
    const std::vector<RingAt> rings = LiveRings();
    const uint64_t now = detail::Clock(slow_clock_ ? 1 : 0);
    const double ticks_per_ms = TicksPerNs() * 1e6;
    std::vector<uint64_t> each;
    const std::lock_guard lock(ages_mutex_);
    for (const RingAt& ring : rings) {
      if (ring.head == ring.floor) continue;
      each.push_back(static_cast<uint64_t>(static_cast<double>(ages_.Age(ring, now)) / ticks_per_ms));
    }
    if (each.empty()) return;
    std::sort(each.begin(), each.end());
    stats->history_shortest_ms = each.front();
    stats->history_median_ms = each[each.size() / 2];
  } catch (const std::bad_alloc&) {
    // Zero says that it is not known.
  }
}

int64_t Session::OwnThreadsCpuNs() noexcept {
  int64_t total = 0;
  for (const auto& clock : own_clocks_) {
    if (const clockid_t id = clock.load(); id != 0) total += CpuNs(id);
  }
  return total;
}

void Session::Stop(uint32_t timeout_ms) noexcept {
  if (!IsOfThisProcess()) return;
  const std::lock_guard stop_lock(stop_mutex_);
  if (!running_.exchange(false)) return;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  const bool is_quiet = trace::SetRequestObserver(nullptr, kGraceNs);
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  priority_.Hurry();  // the host waits now
  sem_post(&wake_);
  {
    std::unique_lock lock(mutex_);
    const auto idle = [this] { return watcher_done_ && copied_ == nullptr && !worker_busy_; };
    if (!watcher_.joinable()) watcher_done_ = true;
    if (!changed_.wait_until(lock, deadline, idle)) give_up_.store(true);
    changed_.notify_all();
  }
  JoinThreads();
  trace::CloseRings();
  trace::CloseRequests();
  is_claimed_ = false;
  trace::ReleaseProcess();
  if (!is_quiet) {
    // A trigger of the host's is still inside: it and this live for ever rather than for too short.
    Log(LogLevel::kWarning, "a trigger did not return within a second of Stop; its memory is not freed");
    const std::lock_guard lock(mutex_);
    ++threads_running_;
    keep_alive_ = weak_from_this().lock();
    next_kept_ = g_kept.exchange(this);
  }
}

// Waits for the threads to see that it is over. One that is inside the host's code (a serializer, a hook, a trigger)
// and does not come back is left alone, with what it works on.
void Session::JoinThreads() noexcept {
  bool is_over;
  {
    std::unique_lock lock(mutex_);
    watcher_done_ = watcher_done_ || !watcher_.joinable();
    if (give_up_.load()) copied_.reset();
    changed_.notify_all();
    is_over = changed_.wait_for(lock, std::chrono::nanoseconds(kGraceNs), [this] { return threads_running_ == 0; });
    if (!is_over) keep_alive_ = weak_from_this().lock();
  }
  if (is_over) {
    if (watcher_.joinable()) watcher_.join();
    if (worker_.joinable()) worker_.join();
    return;
  }
  Log(LogLevel::kWarning, "a serializer, hook or trigger did not return within a second of Stop; its thread is left");
  is_silent_.store(true);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kGraceNs);
  while (inside_host_.load() != 0 && std::chrono::steady_clock::now() < deadline) sched_yield();
  if (watcher_.joinable()) watcher_.detach();
  if (worker_.joinable()) worker_.detach();
}

}  // namespace pitot::session
