// SPDX-License-Identifier: Apache-2.0
#include "session/incident_pipeline.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "assemble/assemble.h"
#include "base/message.h"
#include "session/incident_trace.h"
#include "session/overhead.h"

namespace pitot::session {
namespace {

using base::Error;

constexpr int64_t kFiredArmNs = 2'000'000'000;  // after a trigger: the next of its kind are likely to come soon

}  // namespace

IncidentPipeline::IncidentPipeline(const MemorySplit& split, bool slow_clock, const Parts& parts)
    : split_(split),
      slow_clock_(slow_clock),
      options_(*parts.options),
      lifetime_(*parts.lifetime),
      host_(*parts.host),
      counts_(*parts.counts),
      wake_watcher_(*parts.wake_watcher),
      pace_(*parts.pace),
      depths_(*parts.depths),
      meter_(*parts.meter),
      files_(*parts.files),
      judging_(*parts.judging),
      pending_(&options_.values),
      handover_(&lifetime_, &wake_watcher_) {}

void IncidentPipeline::Begin(const trace::ClockReading& start) {
  start_ = start;
  pending_.SetStart(start.ticks);
  inbox_.Reserve();
}

// ---- On the host's threads. -----------------------------------------------------------------------------------------

bool IncidentPipeline::Push(const Firing& firing, uint64_t begin_ticks) noexcept {
  IncidentCounts::Add(&counts_.triggers_fired);
  // In a storm of events its record may be overwritten before the watcher has looked.
  snapshot::EndCopy end;
  const trace::ThreadRing* const ring = trace::AttachedRing();
  if (ring != nullptr && firing.request != 0) snapshot::CopyNewestEnd(*ring, firing.request, &end);
  if (!inbox_.Push(firing, NowTicks(), begin_ticks, end)) {
    IncidentCounts::Add(&counts_.incidents_suppressed);
    return false;
  }
  wake_watcher_.Give();
  return true;
}

// In this order: a firing counts as a beginning until its incident is pending.
bool IncidentPipeline::MayJoin() noexcept { return inbox_.IsBeginningDue() || pending_.IsPending(); }

Status IncidentPipeline::Ask(const char* reason) noexcept {
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
  if (!Push(firing, NowTicks())) return Status(StatusCode::kResourceExhausted, "too many triggers at once");
  return {};
}

// ---- On the watcher. ------------------------------------------------------------------------------------------------

int64_t IncidentPipeline::DueInNs() const noexcept {
  if (pending_.get() == nullptr) return INT64_MAX;
  // An incident that is due waits for the reserve; the watcher is woken when the reserve is free.
  const int64_t now_ns = trace::MonotonicNs(), left_ns = pending_.get()->due_ns - now_ns;
  if (left_ns <= 0 || rings_.IsOver()) return INT64_MAX;
  return std::min(left_ns, std::max<int64_t>(rings_.look_ns() - now_ns, 0));
}

void IncidentPipeline::CollectFirings() {
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

void IncidentPipeline::TakeFiring(const QueuedFiring& firing) {
  switch (pending_.Take(firing, trace::MonotonicNs())) {
    case PendingIncident::Answer::kJoined:
      return;
    case PendingIncident::Answer::kBegan:
      rings_.Begin(meter_.RingsFor(pending_.get()->window_begin_ticks), trace::MonotonicNs());
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

bool IncidentPipeline::TakeStall(const Firing& firing, uint64_t begin_ticks) noexcept {
  IncidentCounts::Add(&counts_.triggers_fired);
  QueuedFiring queued;
  queued.Set(firing, NowTicks(), begin_ticks);
  try {
    TakeFiring(queued);
    return true;
  } catch (const std::bad_alloc&) {
    IncidentCounts::Add(&counts_.incidents_suppressed);
    return false;
  }
}

// At the end of its post window, or before the rings forget too much of it.
bool IncidentPipeline::IsDue() {
  const int64_t now_ns = trace::MonotonicNs();
  if (now_ns >= pending_.get()->due_ns || rings_.IsOver()) return true;
  if (now_ns >= rings_.look_ns()) rings_.Look(meter_.Rings(), now_ns);
  return rings_.IsOver();
}

void IncidentPipeline::CopyIfDue(bool at_once) {
  if (pending_.get() == nullptr || (!at_once && !IsDue())) return;
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
  Copy(pending_.get(), ~uint64_t{0});
  depths_.Keep(pending_.get());
  HandOver(pending_.Release());
}

// Copies the incident's window, at most this many bytes.
void IncidentPipeline::Copy(Incident* incident, uint64_t most_bytes) {
  std::vector<uint64_t> fired;
  for (const QueuedFiring& firing : incident->firings) {
    fired.push_back(firing.request);
    if (firing.end.count != 0) incident->snapshot.ends.push_back(firing.end);
  }
  snapshot::Reserve reserve = reserve_.Whole();
  if (most_bytes / 8 < static_cast<uint64_t>(reserve.last - reserve.first))
    reserve.last = reserve.first + most_bytes / 8;
  snapshot::TakeSnapshot(start_, slow_clock_, incident->window_begin_ticks, fired, reserve, &incident->snapshot);
  KeepCollected(incident);
}

void IncidentPipeline::HandOver(std::unique_ptr<Incident> incident) {
  pace_.NoteHandedOver();
  handover_.Give(std::move(incident));
}

void IncidentPipeline::TakeSampleIfDue() {
  if (pending_.get() != nullptr || !handover_.IsIdle()) return;
  const auto size = judging_.TakeSampleIfDue(trace::MonotonicNs());
  if (!size) return;
  auto sample = std::make_unique<Incident>();
  sample->is_sample = true;
  const uint64_t now = NowTicks();
  const uint64_t window = detail::TicksOf(uint64_t{size->window_ms} * 1'000'000);
  sample->window_begin_ticks = std::max(start_.ticks, now > window ? now - window : 0);
  Copy(sample.get(), size->most_bytes);
  HandOver(std::move(sample));
}

void IncidentPipeline::KeepCollected(Incident* incident) {
  std::vector<Collector*> collectors = depths_.Collectors();
  if (collectors.empty()) return;
  const HostCalls::Entry entry(&host_);
  if (!entry.is_allowed()) return;
  const int64_t begin_ns = incident->snapshot.clock.Ns(incident->window_begin_ticks);
  const KeepFor what = incident->is_sample ? KeepFor::kSample : KeepFor::kIncident;
  for (Collector* collector : collectors) collector->Keep(begin_ns, what);
  incident->collectors = std::move(collectors);
}

void IncidentPipeline::Fail(const std::exception& why) noexcept {
  host_.Log(LogLevel::kError, Error(StatusCode::kResourceExhausted, "no incident: %s", why.what()).message());
  IncidentCounts::Add(&counts_.incidents_failed);
  pending_.Release();
}

void IncidentPipeline::GiveUpOn(const Incident& incident) noexcept {
  IncidentCounts::Add(&counts_.incidents_failed);
  host_.Log(LogLevel::kError, Error(StatusCode::kUnavailable, "incident %llu, %s: cut off: the recorder was stopped",
                                    static_cast<unsigned long long>(incident.number), incident.cause.c_str())
                                  .message());
}

void IncidentPipeline::GiveUpWaiting() noexcept {
  const std::unique_ptr<Incident> waiting = handover_.TakeWaiting();
  if (waiting != nullptr && !waiting->is_sample) GiveUpOn(*waiting);
}

// ---- On the worker. -------------------------------------------------------------------------------------------------

void IncidentPipeline::Work() noexcept {
  pthread_setname_np(pthread_self(), "pitot-work");
  pace_.Enter();
  while (std::unique_ptr<Incident> copied = handover_.Await()) {
    TakeCopied(std::move(copied));
    judging_.JudgeWaiting();
    pace_.Calm();
    handover_.Done();
  }
}

// Writes the copied incident, or learns from the sample.
void IncidentPipeline::TakeCopied(std::unique_ptr<Incident> incident) noexcept {
  if (incident->is_sample)
    judging_.Learn([&] { return TakeTrace(incident.get()); });
  else
    Write(std::move(incident));
}

bool IncidentPipeline::WriteWaiting() noexcept {
  const Awake awake(pace_.priority());
  std::unique_ptr<Incident> waiting = handover_.TakeWaiting();
  if (waiting == nullptr) return false;
  TakeCopied(std::move(waiting));
  pace_.Calm();
  return true;
}

// The trace of a copy. Frees the copy's room, so the next incident may be copied while this one is written.
model::Trace IncidentPipeline::TakeTrace(Incident* incident) {
  const struct Room {
    ~Room() {
      incident->snapshot = {};
      pipeline->reserve_.GiveBackPages();
      const Awake awake(pipeline->pace_.priority());
      pipeline->handover_.FreeReserve();
    }
    IncidentPipeline* pipeline;
    Incident* incident;
  } room{this, incident};
  return MakeTrace(*incident);
}

model::Trace IncidentPipeline::MakeTrace(const Incident& incident) {
  // A thread that hangs in one and was left by Stop must not call the next.
  const HostCalls::Entry entry(&host_);
  const std::span<Collector* const> collectors(incident.collectors);
  model::Trace trace =
      assemble::Assemble(incident.snapshot, RowBytes(split_), entry.is_allowed() ? collectors : collectors.first(0));
  trace.process_name = trace.strings.Add(options_.process_name);
  AddFirings(incident, &trace);
  const Stats stats = [this] {
    const Awake awake(pace_.priority());  // takes locks that the host's threads need, too
    return meter_.Count();
  }();
  AddFacts(incident, stats, meter_.AgeNs(), options_.values.memory_budget_bytes, &trace);
  AddOverhead(incident, depths_.fixed(), options_.values.overhead_budget_percent, &trace);
  const Awake awake(pace_.priority());
  AddRefused(depths_.Refused(), &trace);
  return trace;
}

// Logs each reason once; other numbers do not make it another reason.
void IncidentPipeline::LogNotRecorded(const model::Trace& trace) {
  constexpr std::string_view kEnd = ".not_recorded";
  constexpr size_t kMost = 64;
  for (const model::Attribute& attribute : trace.attributes) {
    const std::string_view key = trace.strings[attribute.key];
    if (key.size() <= kEnd.size() || key.substr(key.size() - kEnd.size()) != kEnd) continue;
    const std::string text = std::string(key.substr(0, key.size() - kEnd.size())) +
                             ": not recorded: " + std::string(trace.strings[attribute.value]);
    std::string reason = text;
    reason.erase(
        std::remove_if(reason.begin(), reason.end(), [](char c) { return (c >= '0' && c <= '9') || c == '.'; }),
        reason.end());
    if (logged_.size() >= kMost || !logged_.insert(reason).second) continue;
    const Awake awake(pace_.priority());  // the host's log takes locks of its own
    host_.Log(LogLevel::kWarning, text.c_str());
  }
}

void IncidentPipeline::Write(std::unique_ptr<Incident> taken) noexcept {
  Case written;
  written.incident = std::move(taken);
  const Incident& incident = *written.incident;
  std::string& path = written.path;
  Status& status = written.written;
  pace_.BeginWriting();
  pace_.priority()->BeIdle();
  try {
    pace_.Proceed();
    const model::Trace& trace = written.trace.emplace(TakeTrace(written.incident.get()));
    LogNotRecorded(trace);
    if (files_.AreKept()) status = files_.Write(incident, trace, &path);
  } catch (const std::exception& e) {
    files_.Abandon();
    status = Error(StatusCode::kResourceExhausted, "cannot write it: %s", e.what());
  }
  pace_.priority()->BeNormal();
  pace_.EndWriting();
  files_.Conclude(incident, path, status);
  host_.Tell(&Hooks::on_incident, incident, path, status, "");
  if (written.trace && !lifetime_.HasGivenUp() && judging_.HasJudge())
    judging_.Take(std::move(written));
  else
    host_.Tell(&Hooks::on_verdict, incident, path, status, "");
}

}  // namespace pitot::session
