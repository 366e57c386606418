// SPDX-License-Identifier: Apache-2.0
#include "session/incident_pipeline.h"

#include <pthread.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "assemble/assemble.h"
#include "base/message.h"
#include "model/host_language.h"
#include "session/incident_trace.h"
#include "session/overhead.h"

namespace pitot::session {
namespace {

using base::Error;

constexpr uint64_t kRowsOfSample = 4;           // bytes for each byte of its copy; three without collectors
constexpr int64_t kFiredArmNs = 2'000'000'000;  // after a trigger: the next of its kind are likely to come soon
constexpr char kTooMany[] = "no report and no verdict: too many newer incidents were waiting for theirs";
constexpr char kNoVerdict[] = "no verdict: the recorder was stopped";

}  // namespace

IncidentPipeline::IncidentPipeline(bool slow_clock, const Parts& parts)
    : slow_clock_(slow_clock),
      options_(*parts.options),
      budget_(*parts.budget),
      lifetime_(*parts.lifetime),
      host_(*parts.host),
      counts_(*parts.counts),
      wake_watcher_(*parts.wake_watcher),
      writer_throttle_(*parts.writer_throttle),
      throttle_(*parts.throttle),
      depths_(*parts.depths),
      meter_(*parts.meter),
      files_(*parts.files),
      judging_(*parts.judging),
      self_check_(*parts.self_check),
      pending_(&options_.values),
      handover_(&lifetime_, &wake_watcher_) {}

bool IncidentPipeline::MapReserve() noexcept {
  if (!reserve_.Map(budget_.Now().snapshot_reserve)) return false;
  handover_.Begin(reserve_.Whole());
  return true;
}

void IncidentPipeline::Begin(const trace::ClockReading& start) {
  start_ = start;
  modules_.Look(slow_clock_);
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
  firing.cause = kManual;
  firing.detail = reason != nullptr ? reason : "";
  try {
    if (!pending_.HasPlace(firing.cause, trace::MonotonicNs(), IncidentBudget::Reserve::kNone)) {
      IncidentCounts::Add(&counts_.incidents_suppressed);
      return Status(StatusCode::kResourceExhausted, "Options::max_incidents_per_cause_and_hour is used up");
    }
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory for a trigger");
  }
  if (!Push(firing, NowTicks())) return Status(StatusCode::kResourceExhausted, "too many triggers at once");
  return {};
}

Status IncidentPipeline::FlushNow(uint32_t timeout_ms) noexcept {
  hurries_.fetch_add(1);
  const Status status = handover_.Flush(timeout_ms);
  hurries_.fetch_sub(1);
  return status;
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
  modules_.Look(slow_clock_);
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
  // Without verdicts none is new; and who asks for incidents knows why.
  const bool has_reserve = std::strcmp(firing.cause, kManual) != 0 && judging_.HasJudge();
  const auto reserve = has_reserve ? IncidentBudget::Reserve::kForNewVerdicts : IncidentBudget::Reserve::kNone;
  switch (pending_.Take(firing, trace::MonotonicNs(), reserve)) {
    case PendingIncident::Answer::kJoined:
      return;
    case PendingIncident::Answer::kBegan:
      WatchRings();
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

void IncidentPipeline::WatchRings() noexcept {
  try {
    std::vector<WatchedRing> rings = meter_.RingsFor(pending_.get()->window_begin_ticks);
    const snapshot::EndCopy& end = pending_.get()->firings.front().end;
    for (WatchedRing& ring : rings) {
      if (end.count != 0 && ring.at.number == end.thread) ring.written = ring.at.head - end.head;
    }
    rings_.Begin(rings, trace::MonotonicNs());
  } catch (const std::bad_alloc&) {
    rings_ = {};  // the whole post window, then
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
  if (hurries_.load() != 0) return true;
  if (now_ns >= pending_.get()->due_ns || rings_.IsOver()) return true;
  if (now_ns >= rings_.look_ns()) rings_.Look(meter_.Rings(), now_ns);
  return rings_.IsOver();
}

void IncidentPipeline::CopyIfDue(bool at_once) {
  if (pending_.get() == nullptr || (!at_once && !IsDue())) return;
  Limit(pending_.get());
  const snapshot::Reserve room = handover_.AwaitRoom(at_once);
  if (room.first == room.last) {
    // This one waits, and takes in later firings.
    if (!lifetime_.HasGivenUp()) return;
    GiveUpOn(*pending_.get());
    pending_.Release();
    return;
  }
  Copy(pending_.get(), room);
  depths_.Keep(pending_.get());
  unwritten_.fetch_add(1);
  HandOver(pending_.Release());
}

// Gives an incident its part of the budget, by what has been added to the recorder.
void IncidentPipeline::Limit(Incident* incident) {
  const uint64_t held = depths_.HeldBytes();
  const MemorySplit split = budget_.With(held);
  incident->row_bytes = RowBytes(split);
  incident->beyond_row_bytes = held - split.collectors;
  incident->case_room = RoomForCases(split);
  incident->case_room.bytes += incident->case_room.times * incident->beyond_row_bytes;
  handover_.Limit(split.snapshot_reserve);
  if (incident->beyond_row_bytes == 0 || std::exchange(has_told_beyond_, true)) return;
  constexpr double kMiB = 1 << 20;
  host_.Log(
      LogLevel::kWarning,
      Error(StatusCode::kResourceExhausted,
            "collectors hold %.1f MiB, and Options::memory_budget_bytes has %.1f for them: the rest comes on top. "
            "A budget of %.0f MiB holds all, or give them less by their own options (logged once)",
            static_cast<double>(held) / kMiB, static_cast<double>(split.collectors) / kMiB,
            std::ceil(static_cast<double>(budget_.Enough(held)) / kMiB))
          .message());
}

// Copies the incident's window.
void IncidentPipeline::Copy(Incident* incident, const snapshot::Reserve& room) {
  std::vector<uint64_t> fired;
  for (const QueuedFiring& firing : incident->firings) {
    fired.push_back(firing.request);
    if (firing.end.count != 0) incident->snapshot.ends.push_back(firing.end);
  }
  incident->snapshot.modules = &modules_;
  incident->filled =
      snapshot::TakeSnapshot(start_, slow_clock_, incident->window_begin_ticks, fired, room, &incident->snapshot);
  FindCollectors(incident);
}

void IncidentPipeline::TakeSampleIfDue() {
  if (pending_.get() != nullptr || !handover_.IsIdle()) return;
  const auto size = judging_.TakeSampleIfDue(trace::MonotonicNs());
  if (!size) return;
  const uint64_t events = trace::CountRings().events;
  if (std::exchange(events_sampled_, events) == events) return;
  auto sample = std::make_unique<Incident>();
  sample->is_sample = true;
  Limit(sample.get());
  snapshot::Reserve room = handover_.AwaitRoom(false);
  if (size->most_bytes / 8 < static_cast<uint64_t>(room.last - room.first))
    room.last = room.first + size->most_bytes / 8;
  sample->row_bytes = std::min(sample->row_bytes, kRowsOfSample * size->most_bytes);
  const uint64_t now = NowTicks();
  const uint64_t window = detail::TicksOf(uint64_t{size->window_ms} * 1'000'000);
  sample->window_begin_ticks = std::max(start_.ticks, now > window ? now - window : 0);
  Copy(sample.get(), room);
  HandOver(std::move(sample));
}

// Has the collectors keep the window, unless they still keep one of an earlier copy.
void IncidentPipeline::FindCollectors(Incident* incident) {
  incident->collectors = depths_.Collectors();
  if (unassembled_.load() != 0) return;
  const HostCalls::Entry entry(&host_);
  if (!entry.is_allowed()) return;
  incident->kept = KeepCollected(*incident);
}

uint64_t IncidentPipeline::KeepCollected(const Incident& incident) {
  const int64_t begin_ns = incident.snapshot.clock.Ns(incident.window_begin_ticks);
  const KeepFor what = incident.is_sample ? KeepFor::kSample : KeepFor::kIncident;
  for (Collector* collector : incident.collectors) collector->Keep(begin_ns, what);
  return keeps_.fetch_add(1) + 1;
}

void IncidentPipeline::HandOver(std::unique_ptr<Incident> incident) {
  const bool is_sample = incident->is_sample;
  unassembled_.fetch_add(1);
  try {
    handover_.Give(std::move(incident));
  } catch (const std::bad_alloc&) {
    unassembled_.fetch_sub(1);
    if (!is_sample) unwritten_.fetch_sub(1);
    throw;
  }
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
  while (const std::unique_ptr<Incident> waiting = handover_.TakeWaiting()) {
    if (!waiting->is_sample) GiveUpOn(*waiting);
  }
}

void IncidentPipeline::GiveUpCases() noexcept {
  while (const std::optional<Case> waiting = cases_.TakeWaiting()) {
    if (waiting->incident->is_sample) {
      IncidentCounts::Add(&counts_.samples_failed);
      continue;
    }
    if (waiting->is_judged) {
      LeaveUnfinished(*waiting);
      continue;
    }
    if (!waiting->written.ok()) GiveUpOn(*waiting->incident);
    files_.CountOthersMissing(*waiting);
    if (judging_.HasJudge()) counts_.AddNoVerdict(&IncidentCounts::verdicts_stopped);
  }
}

// ---- On the writer. -------------------------------------------------------------------------------------------------

void IncidentPipeline::WriteDumps() noexcept {
  pthread_setname_np(pthread_self(), "pitot-write");
  writer_throttle_.EnterAtNormal();
  while (std::unique_ptr<Incident> copied = handover_.Await()) WriteDump(std::move(copied));
  cases_.Close();
}

// Writes the dump of a copied incident, and passes it on. A sample is passed on as it is.
void IncidentPipeline::WriteDump(std::unique_ptr<Incident> taken) noexcept {
  Case it;
  it.incident = std::move(taken);
  const Incident& incident = *it.incident;
  if (!incident.is_sample) {
    const int64_t begin_ns = writer_throttle_.CpuNs();
    writer_throttle_.Proceed();
    cases_.MakeRoom(incident.case_room);
    try {
      const model::Trace& trace = it.trace.emplace(TakeTrace(it.incident.get()));
      LogNotRecorded(trace);
      if (files_.AreKept())
        it.written = files_.WriteDump(incident, trace, &writer_throttle_, &it.path);
      else
        LogNotKept(trace);
    } catch (const std::exception& e) {
      files_.AbandonDump();
      it.written = Error(StatusCode::kResourceExhausted, "cannot write it: %s", e.what());
    }
    unwritten_.fetch_sub(1);
    throttle_.Charge(writer_throttle_.CpuNs() - begin_ns);
    KeepForHooks(it.incident.get());
    // A hook in progress is not waited for: the worker tells the host then.
    if (it.written.ok()) it.is_told = host_.TellIfFree(&Hooks::on_incident, incident, it.path, {});
  }
  std::optional<Case> oldest;
  try {
    oldest = cases_.Add(std::move(it));
  } catch (const std::bad_alloc&) {
    Drop(&it, Status(StatusCode::kResourceExhausted, "no memory to complete the incident"), true);
  }
  // The worker may hang in a hook: not waited for.
  if (oldest) Drop(&*oldest, Status(StatusCode::kResourceExhausted, kTooMany), false);
}

// It stays as it is, and the host is told: if a hook is in progress, only if it `waits`.
void IncidentPipeline::Drop(Case* it, const Status& why, bool waits) noexcept {
  if (it->incident->is_sample) {
    FreeCopy(it->incident.get(), &writer_throttle_);
    IncidentCounts::Add(&counts_.samples_failed);
  } else if (it->is_judged) {
    LeaveUnfinished(*it);
  } else {
    files_.CountOthersMissing(*it);
    if (!it->written.ok()) IncidentCounts::Add(&counts_.incidents_failed);
    if (judging_.HasJudge()) counts_.AddNoVerdict(&IncidentCounts::verdicts_displaced);
    files_.NoteDropped(*it, why, &writer_throttle_);
    host_.LogError(why);
    const auto tell = [&](HostCalls::Hook hook, const Status& status) {
      if (!waits) return host_.TellIfFree(hook, *it->incident, it->path, status);
      host_.Tell(hook, *it->incident, it->path, status, "");
      return true;
    };
    if (it->is_told || tell(&Hooks::on_incident, it->written)) tell(&Hooks::on_verdict, why);
  }
  handover_.Finish();
}

// ---- On the worker. -------------------------------------------------------------------------------------------------

void IncidentPipeline::EnterWorker() noexcept {
  pthread_setname_np(pthread_self(), "pitot-work");
  throttle_.Enter();
}

void IncidentPipeline::Work() noexcept {
  while (std::optional<Case> next = cases_.Await()) {
    bool is_finished = true;
    if (next->incident->is_sample)
      judging_.Learn([&] { return TakeTrace(next->incident.get()); }, [this] { return cases_.IsVerdictAwaited(); });
    else
      is_finished = next->is_judged ? FinishJudged(std::move(*next)) : TakeUp(std::move(*next));
    throttle_.Calm();
    if (is_finished) handover_.Finish();
  }
}

// Has an incident judged, and tells the host. From here to its verdict, the worker's patience counts.
bool IncidentPipeline::TakeUp(Case it) noexcept {
  throttle_.BeginWriting();
  files_.Reopen();
  if (it.path.empty()) CompleteIdle(&it);  // its dump is tried again
  if (!it.is_told) host_.Tell(&Hooks::on_incident, *it.incident, it.path, it.written, "");
  const bool is_finished = Judge(std::move(it));
  throttle_.EndWriting();
  return is_finished;
}

bool IncidentPipeline::Judge(Case it) noexcept {
  if (it.is_displaced) {
    judging_.GiveUp(&it, Status(StatusCode::kResourceExhausted, kTooMany), &IncidentCounts::verdicts_displaced);
    return true;
  }
  const bool has_judge = judging_.HasJudge();
  if (!it.trace || lifetime_.HasGivenUp() || !has_judge) {
    CompleteIdle(&it);
    if (has_judge) counts_.AddNoVerdict(&IncidentCounts::verdicts_stopped);
    if (has_judge && it.written.ok()) it.written = Status(StatusCode::kUnavailable, kNoVerdict);
    host_.Tell(&Hooks::on_verdict, *it.incident, it.path, it.written, "");
    return true;
  }
  if (it.has_waited && throttle_.IsFinishing()) {
    judging_.GiveUp(&it, Status(StatusCode::kUnavailable, kNoVerdict), &IncidentCounts::verdicts_stopped);
    return true;
  }
  judging_.JudgeNow(&it, [this] { return cases_.IsVerdictAwaited(); });
  pending_.NoteVerdict(*it.incident, it.is_repeat ? IncidentBudget::Verdict::kKnown : IncidentBudget::Verdict::kNew,
                       trace::MonotonicNs());
  return (it.is_complete && !it.has_findings) || PutBack(std::move(it));
}

// The files that a judged incident lacks, then findings. Stop waits for the findings of one incident at most: of the
// last.
bool IncidentPipeline::FinishJudged(Case judged) noexcept {
  const bool is_folded = !judged.path.empty() && !files_.Has(judged.path);
  if (is_folded) judged.is_complete = true;
  if (is_folded || !judged.trace || lifetime_.HasGivenUp()) {
    LeaveUnfinished(judged);
    return true;
  }
  if (!judged.is_complete) {
    throttle_.BeginWriting();
    CompleteIdle(&judged);
    throttle_.EndWriting();
  }
  if (!judged.has_findings) return true;
  if (throttle_.IsFinishing() && !cases_.IsEmpty()) {
    LeaveUnfinished(judged);
    return true;
  }
  return judging_.AddFindings(&judged, [this] { return cases_.IsVerdictAwaited(); }) || PutBack(std::move(judged));
}

void IncidentPipeline::CompleteIdle(Case* it) noexcept {
  throttle_.priority()->BeIdle();
  files_.Complete(it);
  throttle_.priority()->BeNormal();
}

void IncidentPipeline::LeaveUnfinished(const Case& judged) noexcept {
  if (judged.has_findings) IncidentCounts::Add(&counts_.findings_left_out);
  if (!judged.is_complete) files_.CountOthersMissing(judged);
}

bool IncidentPipeline::PutBack(Case judged) noexcept {
  try {
    cases_.PutBack(std::move(judged));
    return false;
  } catch (const std::bad_alloc&) {
    LeaveUnfinished(judged);
    return true;
  }
}

// ---- On both. -------------------------------------------------------------------------------------------------------

// Holds a mutex for a block. The worker, if given, is hurried only if the mutex is not free: then the worker holds it.
class PITOT_THREAD_ANNOTATION(scoped_lockable) IncidentPipeline::AssembleLock {
 public:
  AssembleLock(base::Mutex* mutex, CpuThrottle* worker) PITOT_ACQUIRE(mutex) : mutex_(*mutex) {
    if (mutex_.TryLock()) return;
    std::optional<CpuThrottle::Awaited> awaited;
    if (worker != nullptr) awaited.emplace(worker);
    mutex_.Lock();
  }
  ~AssembleLock() PITOT_RELEASE() { mutex_.Unlock(); }
  AssembleLock(const AssembleLock&) = delete;
  AssembleLock& operator=(const AssembleLock&) = delete;

 private:
  base::Mutex& mutex_;
};

// The trace of a copy. Frees the copy's room.
model::Trace IncidentPipeline::TakeTrace(Incident* incident) {
  const struct Room {
    ~Room() { pipeline->FreeCopy(incident, &pipeline->ThrottleFor(*incident)); }
    IncidentPipeline* pipeline;
    Incident* incident;
  } room{this, incident};
  std::vector<std::string> missing;
  std::optional<model::Trace> trace;
  {
    const AssembleLock lock(&assemble_mutex_, incident->is_sample ? nullptr : &throttle_);
    trace.emplace(MakeTrace(*incident, &missing));
  }
  const Awake awake(ThrottleFor(*incident).priority());
  for (const std::string& call : missing)
    host_.Log(LogLevel::kWarning, model::InHostLanguage(*trace, call + " (logged once)").c_str());
  return *std::move(trace);
}

void IncidentPipeline::FreeCopy(Incident* incident, CpuThrottle* throttle) noexcept {
  incident->snapshot = {};
  for (const snapshot::Reserve& part : {incident->filled.low, incident->filled.high}) reserve_.GiveBackPages(part);
  const Awake awake(throttle->priority());
  unassembled_.fetch_sub(1);
  handover_.FreeRoom(incident->filled);
}

model::Trace IncidentPipeline::MakeTrace(const Incident& incident, std::vector<std::string>* missing) {
  // A thread that hangs in one and was left by Stop must not call the next.
  const HostCalls::Entry entry(&host_);
  std::span<Collector* const> collectors;
  if (entry.is_allowed()) {
    const uint64_t kept = incident.kept != 0 ? incident.kept : KeepCollected(incident);
    // A sample's worker may have waited for its share, while an incident had them keep its own window.
    if (kept == keeps_.load()) collectors = incident.collectors;
  }
  model::Trace trace =
      assemble::Assemble(incident.snapshot, {incident.row_bytes, incident.beyond_row_bytes}, collectors);
  trace.process_name = trace.strings.Add(options_.process_name);
  AddFirings(incident, &trace);
  const Stats stats = [&] {
    const Awake awake(ThrottleFor(incident).priority());  // takes locks that the host's threads need, too
    return meter_.Count();
  }();
  AddFacts(incident, stats, meter_.AgeNs(), options_.values.memory_budget_bytes, &trace);
  *missing = self_check_.Look(&trace);
  model::SetHostLanguage(static_cast<model::HostLanguage>(options_.values.language), &trace);
  model::PutAttributesInHostLanguage(&trace);
  AddOverhead(incident, depths_.fixed(), options_.values.overhead_budget_percent, &trace);
  const Awake awake(ThrottleFor(incident).priority());
  AddRefused(depths_.Refused(), &trace);
  if (!incident.is_sample) judging_.AddNorms(&trace);
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
    host_.Log(LogLevel::kWarning, text.c_str());
  }
}

void IncidentPipeline::LogNotKept(const model::Trace& trace) {
  constexpr const char* kNotKept =
      "no file is written for incidents: Options::incident_directory is empty, and only hooks hear of them. To keep "
      "them, name a directory there, or in PITOT_INCIDENT_DIRECTORY (logged once)";
  if (logged_.insert(kNotKept).second) host_.Log(LogLevel::kWarning, model::InHostLanguage(trace, kNotKept).c_str());
}

}  // namespace pitot::session
