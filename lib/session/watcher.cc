// SPDX-License-Identifier: Apache-2.0
//
// Session on the watcher: collects firings, looks for stalls, copies rings.
#include <pthread.h>

#include <algorithm>

#include "base/clock.h"
#include "base/message.h"
#include "session/calibrate.h"
#include "session/session.h"
#include "snapshot/ring_reader.h"
#include "trace/names.h"
#include "trace/rings.h"

namespace pitot::session {
namespace {

using base::Error;

constexpr int64_t kTickNs = 10'000'000;      // between looks for stalls
constexpr int64_t kIdleTickNs = 50'000'000;  // if nothing watches open work: firings wake the watcher themselves
constexpr uint64_t kStallNoticedNs = 10'000'000;
constexpr int64_t kFiredArmNs = 2'000'000'000;  // after a trigger: the next of its kind are likely to come soon

// A scope open for long.
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

}  // namespace

void Session::Watch() noexcept {
  pthread_setname_np(pthread_self(), "pitot-watch");
  for (;;) {
    const uint32_t count = trigger_count_.load(std::memory_order_acquire);
    const auto any = [&](auto asks) { return std::any_of(triggers_, triggers_ + count, asks); };
    const bool watches_requests = any([](auto& trigger) { return trigger->WatchesOpenRequests(); });
    const bool watches_scopes = any([](auto& trigger) { return trigger->WatchesOpenScopes(); });
    int64_t sleep_ns = watches_requests || watches_scopes || depths_.IsGoverned() ? kTickNs : kIdleTickNs;
    sleep_ns = std::min(sleep_ns, late_in_ns_);
    if (pending_.get() != nullptr) {
      // An incident that is due waits for the reserve; this thread is woken when the reserve is free.
      const int64_t left_ns = pending_.get()->due_ns - trace::MonotonicNs();
      if (left_ns > 0) sleep_ns = std::min(left_ns, sleep_ns);
    }
    wake_.AwaitUntil(base::ClockNs(CLOCK_MONOTONIC) + sleep_ns);
    wake_.TakeAll();  // one look serves all wake-ups
    const bool stopping = handover_.IsStopping();
    try {
      CollectFirings();
      if (watches_requests && !stopping) LookForStalledRequests();
      if (watches_scopes && !stopping) LookForStalledScopes();
      late_in_ns_ = INT64_MAX;
      // The governor may be new since the sleep. Asked again, so that the first incident has its state.
      if (!stopping && depths_.IsGoverned()) {
        late_in_ns_ = depths_.ArmForLateRequests();
        depths_.Govern();
      }
      CopyIfDue(stopping);
      if (!stopping) TakeSampleIfDue();
      pace_.HurryIfLate();
      meter_.NoteRingAges();
    } catch (const std::exception& e) {
      host_.Log(LogLevel::kError, Error(StatusCode::kResourceExhausted, "no incident: %s", e.what()).message());
      IncidentCounts::Add(&counts_.incidents_failed);
      pending_.Release();
    }
    if (stopping && pending_.get() == nullptr) return handover_.Close();
  }
}

void Session::CollectFirings() {
  const uint64_t asked = handover_.FlushesAsked();
  IncidentCounts::Add(&counts_.incidents_suppressed, inbox_.Collect());
  QueuedFiring firing;
  while (inbox_.Next(pending_.get() != nullptr, &firing)) {
    const struct Taken {
      ~Taken() { inbox->Taken(*firing); }
      FiringInbox* inbox;
      const QueuedFiring* firing;
    } taken{&inbox_, &firing};
    TakeFiring(firing);
  }
  if (pending_.get() == nullptr && inbox_.IsEmpty()) handover_.AnswerFlushes(asked);
}

void Session::TakeFiring(const QueuedFiring& firing) {
  switch (pending_.Take(firing, trace::MonotonicNs())) {
    case PendingIncident::Answer::kJoined:
      return;
    case PendingIncident::Answer::kBegan:
      if (depths_.IsGoverned()) depths_.ArmFor(kFiredArmNs);
      return;
    case PendingIncident::Answer::kRefused:
      host_.Log(LogLevel::kWarning,
                Error(StatusCode::kResourceExhausted,
                      "no incident for \"%s\": Options::max_incidents_per_cause_and_hour is used up (logged once; "
                      "Stats::incidents_suppressed keeps counting)",
                      firing.cause)
                    .message());
      [[fallthrough]];
    case PendingIncident::Answer::kSuppressed:
      IncidentCounts::Add(&counts_.incidents_suppressed);
  }
}

// Like FireOn, on the watcher and past the queue: all stalls of one moment are one incident.
bool Session::TakeStall(const Firing& firing, uint64_t begin_ticks) noexcept {
  IncidentCounts::Add(&counts_.triggers_fired);
  QueuedFiring queued;
  queued.Set(firing, detail::Clock(slow_clock_ ? 1 : 0), begin_ticks);
  try {
    TakeFiring(queued);
    return true;
  } catch (const std::bad_alloc&) {
    IncidentCounts::Add(&counts_.incidents_suppressed);
    return false;
  }
}

void Session::LookForStalledRequests() noexcept {
  trace::VisitOpenRequests(
      [](void* context, const trace::OpenRequest& open) {
        auto* session = static_cast<Session*>(context);
        const uint32_t count = session->trigger_count_.load(std::memory_order_acquire);
        if (open.is_ending) return;
        OpenedSink sink(session, &Session::TakeStall, open.begin_ticks);
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
      if (site.name_is_first_arg && open.scope.arg_words == 0) continue;  // it is ending
      const std::string name(site.name_is_first_arg ? trace::NameText(static_cast<uint32_t>(open.scope.args[0]))
                                                    : site.name);
      const auto open_ns = static_cast<uint64_t>(static_cast<double>(now - open.scope.begin_ticks) / ticks_per_ns);
      const OpenScopeView view{name.c_str(), open.thread, open_ns, site.is_wait};
      OpenedSink sink(this, &Session::TakeStall, open.scope.begin_ticks);
      const uint32_t count = trigger_count_.load(std::memory_order_acquire);
      for (uint32_t i = 0; i < count; ++i) triggers_[i]->OnOpenScope(view, sink);
    }
  } catch (const std::bad_alloc&) {
    // The next tick looks again.
  }
}

void Session::CopyIfDue(bool at_once) {
  if (pending_.get() == nullptr || (!at_once && trace::MonotonicNs() < pending_.get()->due_ns)) return;
  switch (handover_.AwaitRoom(at_once)) {
    case Handover::Room::kInUse:
      return;  // this one waits, and takes in later firings
    case Handover::Room::kGivenUp:
      GiveUpOn(*pending_.get());
      pending_.Release();
      return;
    case Handover::Room::kFree:
      break;
  }
  CopyTo(pending_.get(), ~uint64_t{0});
  depths_.Keep(pending_.get());
  HandOver(pending_.Release());
}

// Copies the incident's window, at most this many bytes.
void Session::CopyTo(Incident* incident, uint64_t most_bytes) {
  std::vector<uint64_t> fired;
  for (const QueuedFiring& firing : incident->firings) fired.push_back(firing.request);
  snapshot::Reserve reserve = reserve_.Whole();
  if (most_bytes / 8 < static_cast<uint64_t>(reserve.last - reserve.first))
    reserve.last = reserve.first + most_bytes / 8;
  snapshot::TakeSnapshot(start_, slow_clock_, incident->window_begin_ticks, fired, reserve, &incident->snapshot);
  KeepCollected(incident);
}

void Session::HandOver(std::unique_ptr<Incident> incident) {
  pace_.NoteHandedOver();
  handover_.Give(std::move(incident));
}

// Takes a sample for the judge, while there is nothing else to do.
void Session::TakeSampleIfDue() {
  if (pending_.get() != nullptr || !handover_.IsIdle()) return;
  const auto size = judging_.TakeSampleIfDue(trace::MonotonicNs());
  if (!size) return;
  auto sample = std::make_unique<Incident>();
  sample->is_sample = true;
  const uint64_t now = detail::Clock(slow_clock_ ? 1 : 0);
  const uint64_t window = detail::TicksOf(uint64_t{size->window_ms} * 1'000'000);
  sample->window_begin_ticks = std::max(start_.ticks, now > window ? now - window : 0);
  CopyTo(sample.get(), size->most_bytes);
  HandOver(std::move(sample));
}

void Session::KeepCollected(Incident* incident) {
  std::vector<Collector*> collectors = depths_.Collectors();
  if (collectors.empty()) return;
  const HostCalls::Entry entry(&host_);
  if (!entry.is_allowed()) return;
  const int64_t begin_ns = incident->snapshot.clock.Ns(incident->window_begin_ticks);
  const KeepFor what = incident->is_sample ? KeepFor::kSample : KeepFor::kIncident;
  for (Collector* collector : collectors) collector->Keep(begin_ns, what);
  incident->collectors = std::move(collectors);
}

}  // namespace pitot::session
