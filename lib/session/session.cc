// SPDX-License-Identifier: Apache-2.0
#include "session/session.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
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
#include "snapshot/site_reader.h"
#include "trace/names.h"
#include "trace/process.h"
#include "trace/rings.h"

namespace pitot::session {
namespace {

using base::Error;

constexpr int64_t kTickNs = 10'000'000;      // between looks for stalls
constexpr int64_t kIdleTickNs = 50'000'000;  // where nothing watches open work: firings wake the watcher themselves
constexpr uint64_t kStallNoticedNs = 10'000'000;
// How much CPU time the worker may use at once before its share is enforced.
constexpr double kWorkerBurstNs = 100e6;

int64_t CpuNs(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
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
  sem_destroy(&wake_);
}

std::shared_ptr<Session> Session::Start(const Options& options, Status* status) noexcept {
  bool claimed = false;
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
    claimed = true;
    if (*status = session->directory_.Open(session->options_.incident_directory); status->ok())
      *status = session->StartThreads();
    if (!status->ok()) {
      trace::ReleaseProcess();
      return nullptr;
    }
    return session;
  } catch (const std::exception& e) {
    if (claimed) trace::ReleaseProcess();
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
  start_cpu_ns_ = CpuNs(CLOCK_PROCESS_CPUTIME_ID);
  running_.store(true);
  try {
    watcher_ = std::thread([this] { Watch(); });
    worker_ = std::thread([this] { Work(); });
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
  return {};
}

bool Session::IsOfThisProcess() const noexcept { return fork_epoch_ == trace::ForkEpoch(); }

void Session::Log(LogLevel level, const char* message) const noexcept {
  if (options_.values.log != nullptr) options_.values.log(options_.values.log_context, level, message);
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
  const std::lock_guard lock(serializers_mutex_);
  for (auto& there : serializers_) {
    if (name == there->FileName()) {
      there = std::move(serializer);
      return {};
    }
  }
  try {
    serializers_.push_back(std::move(serializer));
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
  if (!Fire(firing)) return Status(StatusCode::kResourceExhausted, "too many triggers at once");
  return {};
}

Status Session::Flush(uint32_t timeout_ms) noexcept {
  if (Status s = status(); !s.ok()) return s;
  std::unique_lock lock(mutex_);
  const uint64_t asked = ++flush_asked_;
  sem_post(&wake_);
  const bool done =
      changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return flush_done_ >= asked || stopping_; });
  if (!done) return Status(StatusCode::kUnavailable, "incidents are still being written; the time is up");
  return {};
}

// ---- On the host's threads. -----------------------------------------------------------------------------------------

void Session::OnFinish(const RequestView& request) noexcept {
  const uint32_t count = trigger_count_.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) triggers_[i]->OnFinish(request, *this);
}

void Session::OnTokens(const RequestView& request, uint64_t gap_ns) noexcept {
  const uint32_t count = trigger_count_.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) triggers_[i]->OnTokens(request, gap_ns, *this);
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

bool Session::Fire(const Firing& firing) noexcept {
  triggers_fired_.fetch_add(1, std::memory_order_relaxed);
  if (!firing_queue_.Push(firing, detail::Clock(slow_clock_ ? 1 : 0))) {
    incidents_suppressed_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  sem_post(&wake_);
  return true;
}

// ---- The watcher. ---------------------------------------------------------------------------------------------------

void Session::Watch() noexcept {
  pthread_setname_np(pthread_self(), "pitot-watch");
  for (;;) {
    const uint32_t count = trigger_count_.load(std::memory_order_acquire);
    const bool watches = std::any_of(triggers_, triggers_ + count, [](auto& t) { return t->WatchesOpenWork(); });
    timespec until{};
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t sleep_ns = watches ? kTickNs : kIdleTickNs;
    if (pending_ != nullptr) {
      // One that is due already waits for the worker, who wakes this thread.
      const int64_t left_ns = pending_->due_ns - trace::MonotonicNs();
      if (left_ns > 0) sleep_ns = std::min(left_ns, sleep_ns);
    }
    until.tv_nsec += sleep_ns;
    if (until.tv_nsec >= 1'000'000'000) ++until.tv_sec, until.tv_nsec -= 1'000'000'000;
    sem_clockwait(&wake_, CLOCK_MONOTONIC, &until);
    bool stopping;
    {
      const std::lock_guard lock(mutex_);
      stopping = stopping_;
    }
    try {
      CollectFirings();
      if (watches && !stopping) {
        LookForStalls();
        CollectFirings();
      }
      CopyIfDue(stopping);
    } catch (const std::exception& e) {
      Log(LogLevel::kError, Error(StatusCode::kResourceExhausted, "no incident: %s", e.what()).message());
      incidents_failed_.fetch_add(1, std::memory_order_relaxed);
      pending_.reset();
    }
    if (stopping && pending_ == nullptr) {
      const std::lock_guard lock(mutex_);
      watcher_done_ = true;
      changed_.notify_all();
      return;
    }
  }
}

void Session::CollectFirings() {
  uint64_t asked;
  {
    const std::lock_guard lock(mutex_);
    asked = flush_asked_;
  }
  QueuedFiring firing;
  while (firing_queue_.Pop(&firing)) TakeFiring(firing);
  if (pending_ != nullptr) return;
  const std::lock_guard lock(mutex_);
  if (copied_ == nullptr && !worker_busy_ && flush_done_ < asked) {
    flush_done_ = asked;
    changed_.notify_all();
  }
}

void Session::TakeFiring(const QueuedFiring& firing) {
  const Options& o = options_.values;
  if (pending_ != nullptr) {
    // One incident lists every slow request of its window.
    if (pending_->firings.size() < kMaxFirings)
      pending_->firings.push_back(firing);
    else
      ++pending_->firings_unlisted;
    return;
  }
  const int64_t now_ns = trace::MonotonicNs();
  if (!budget_.Take(firing.cause, now_ns)) {
    incidents_suppressed_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  auto incident = std::make_unique<Incident>();
  incident->number = next_number_++;
  incident->cause = firing.cause;
  incident->firings.push_back(firing);
  const uint64_t pre_ms = firing.pre_window_ms != 0 ? firing.pre_window_ms : o.pre_window_ms;
  const uint64_t post_ms = firing.post_window_ms != 0 ? firing.post_window_ms : o.post_window_ms;
  const uint64_t pre_ticks = detail::TicksOf(pre_ms * 1'000'000);
  incident->window_begin_ticks = firing.at_ticks > pre_ticks ? firing.at_ticks - pre_ticks : 0;
  incident->due_ns = now_ns + static_cast<int64_t>(post_ms) * 1'000'000;
  pending_ = std::move(incident);
}

void Session::LookForStalls() noexcept {
  trace::VisitOpenRequests(
      [](void* context, const trace::OpenRequest& open) {
        auto* session = static_cast<Session*>(context);
        const uint32_t count = session->trigger_count_.load(std::memory_order_acquire);
        for (uint32_t i = 0; i < count; ++i) session->triggers_[i]->OnOpenRequest(open.view, *session);
      },
      this);
  const std::vector<trace::ThreadRing*> rings = trace::PinRings();
  const uint64_t now = detail::Clock(slow_clock_ ? 1 : 0);
  const uint64_t long_ago = detail::TicksOf(kStallNoticedNs);
  for (const trace::ThreadRing* ring : rings) {
    if (ring->state != trace::RingState::kLive) continue;
    for (const detail::OpenScope& open : ring->open) {
      const uint64_t begin = __atomic_load_n(&open.begin, __ATOMIC_ACQUIRE);
      if (begin == 0 || now < begin + long_ago) continue;
      const Site* site = __atomic_load_n(&open.site, __ATOMIC_ACQUIRE);
      if (__atomic_load_n(&open.begin, __ATOMIC_ACQUIRE) != begin) continue;
      try {
        const snapshot::SiteText text = snapshot::ReadSite(reinterpret_cast<uintptr_t>(site));
        const auto open_ns = static_cast<uint64_t>(static_cast<double>(now - begin) /
                                                   (static_cast<double>(detail::g_ticks_per_ns_q32) / 4294967296.0));
        const uint32_t count = trigger_count_.load(std::memory_order_acquire);
        for (uint32_t i = 0; i < count; ++i) triggers_[i]->OnOpenScope(text.name.c_str(), ring->number, open_ns, *this);
      } catch (const std::bad_alloc&) {
        break;  // the next tick looks again
      }
    }
  }
  trace::UnpinRings(rings);
}

void Session::CopyIfDue(bool at_once) {
  if (pending_ == nullptr || (!at_once && trace::MonotonicNs() < pending_->due_ns)) return;
  {
    std::unique_lock lock(mutex_);
    // The reserve still holds the incident before: this one waits, and takes in what fires meanwhile.
    if (copied_ != nullptr || worker_busy_) {
      if (!at_once) return;
      changed_.wait(lock, [this] { return (copied_ == nullptr && !worker_busy_) || give_up_.load(); });
      if (give_up_.load()) {
        pending_.reset();
        return;
      }
    }
  }
  snapshot::TakeSnapshot(start_, slow_clock_, pending_->window_begin_ticks, reserve_.Whole(), &pending_->snapshot);
  const std::lock_guard lock(mutex_);
  copied_ = std::move(pending_);
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
    std::unique_lock lock(mutex_);
    if (stopping_) return !give_up_.load();  // the host waits: finish
    changed_.wait_for(lock, std::chrono::nanoseconds(static_cast<int64_t>(-worker_tokens_ns_ / share)));
  }
}

void Session::Work() noexcept {
  pthread_setname_np(pthread_self(), "pitot-work");
  sched_param param{};
  pthread_setschedparam(pthread_self(), SCHED_IDLE, &param);  // where it is refused, normal priority has to do
  worker_refilled_ns_ = CpuNs(CLOCK_MONOTONIC);
  worker_cpu_ns_ = CpuNs(CLOCK_THREAD_CPUTIME_ID);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return copied_ != nullptr || watcher_done_; });
    if (copied_ == nullptr) return;
    const std::unique_ptr<Incident> incident = std::move(copied_);
    worker_busy_ = true;
    lock.unlock();
    try {
      WriteIncident(incident.get());
    } catch (const std::exception& e) {
      incidents_failed_.fetch_add(1, std::memory_order_relaxed);
      Log(LogLevel::kError, Error(StatusCode::kResourceExhausted, "incident %llu: %s",
                                  static_cast<unsigned long long>(incident->number), e.what())
                                .message());
      directory_.Abandon();
    }
    lock.lock();
    worker_busy_ = false;
    changed_.notify_all();
    sem_post(&wake_);  // the watcher may have waited for the reserve
  }
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
  const Stats stats = GetStats();
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
  {
    const std::lock_guard lock(serializers_mutex_);
    for (const auto& serializer : serializers_) {
      if (Status s = directory_.AddFile(serializer.get(), trace, this); !s.ok()) {
        directory_.Abandon();
        return s;
      }
    }
  }
  if (Status s = directory_.Commit(path); !s.ok()) return s;
  directory_.Prune(options_.values.max_incidents_kept, options_.values.max_incident_directory_bytes);
  return {};
}

void Session::WriteIncident(Incident* incident) {
  Proceed();
  const model::Trace trace = MakeTrace(*incident);
  reserve_.GiveBackPages();
  std::string path;
  Status written;
  if (directory_.IsOpen()) written = WriteFiles(*incident, trace, &path);
  if (!written.ok()) {
    incidents_failed_.fetch_add(1, std::memory_order_relaxed);
    Log(LogLevel::kError, written.message());
  } else if (directory_.IsOpen()) {
    incidents_written_.fetch_add(1, std::memory_order_relaxed);
    Log(LogLevel::kInfo, ("incident: " + path).c_str());
  }
  Hooks hooks;
  {
    const std::lock_guard lock(mutex_);
    hooks = hooks_;
  }
  IncidentInfo info{};
  info.number = incident->number;
  info.cause = incident->cause.c_str();
  info.directory = path.empty() ? nullptr : path.c_str();
  for (const QueuedFiring& firing : incident->firings) info.slow_requests += firing.request != 0;
  info.first_request = incident->firings.front().request;
  info.status = written;
  if (hooks.on_incident != nullptr) hooks.on_incident(hooks.context, info);
  if (hooks.on_verdict != nullptr) hooks.on_verdict(hooks.context, info);
}

// ---- Stats and the end.
// -----------------------------------------------------------------------------------------------

Stats Session::GetStats() noexcept {
  Stats stats{};
  stats.memory = split_;
  stats.triggers_fired = triggers_fired_.load();
  stats.incidents_written = incidents_written_.load();
  stats.incidents_suppressed = incidents_suppressed_.load();
  stats.incidents_failed = incidents_failed_.load();
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
  stats.names_refused = trace::NamesRefused();
  AddHistory(slow_clock_, &stats.history_shortest_ms, &stats.history_median_ms);

  const auto process_ns = static_cast<double>(CpuNs(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns_);
  if (process_ns > 0) {
    stats.recording_cpu_percent = 100 * static_cast<double>(rings.events) * scope_cost_ns_ / process_ns;
    stats.own_threads_cpu_percent = 100 * static_cast<double>(OwnThreadsCpuNs()) / process_ns;
  }
  return stats;
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
  // A host's predicate that never returns keeps its trigger alive for ever rather than for too short.
  const bool quiet = trace::SetRequestObserver(nullptr, 1'000'000'000);
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (worker_.joinable()) {
    sched_param param{};
    pthread_setschedparam(worker_.native_handle(), SCHED_OTHER, &param);  // the host waits now
  }
  sem_post(&wake_);
  {
    std::unique_lock lock(mutex_);
    const auto idle = [this] { return watcher_done_ && copied_ == nullptr && !worker_busy_; };
    if (!watcher_.joinable()) watcher_done_ = true;
    if (!changed_.wait_until(lock, deadline, idle)) give_up_.store(true);
    changed_.notify_all();
  }
  if (watcher_.joinable()) watcher_.join();
  {
    const std::lock_guard lock(mutex_);
    watcher_done_ = true;
    changed_.notify_all();
  }
  if (worker_.joinable()) worker_.join();
  trace::CloseRings();
  trace::CloseRequests();
  trace::ReleaseProcess();
  if (!quiet) {
    for (auto& trigger : triggers_) (void)trigger.release();
    Log(LogLevel::kWarning, "a trigger did not return within a second of Stop; its memory is not freed");
  }
}

}  // namespace pitot::session
