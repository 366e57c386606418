// SPDX-License-Identifier: Apache-2.0
//
// Makes incidents of firings. The watcher takes firings from the inbox, gathers them in a pending incident, and copies
// its window into the reserve. The writer makes a trace of the copy, writes the dump and tells the host. The worker
// adds the other files, and has the incident judged.
#ifndef PITOT_LIB_SESSION_INCIDENT_PIPELINE_H_
#define PITOT_LIB_SESSION_INCIDENT_PIPELINE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/semaphore.h"
#include "pitot/extend/trigger.h"
#include "pitot/model/trace.h"
#include "pitot/stats.h"
#include "pitot/status.h"
#include "session/case_queue.h"
#include "session/cpu_throttle.h"
#include "session/depths.h"
#include "session/firing_inbox.h"
#include "session/firing_taker.h"
#include "session/handover.h"
#include "session/host_calls.h"
#include "session/incident.h"
#include "session/incident_counts.h"
#include "session/incident_files.h"
#include "session/judging.h"
#include "session/lifetime.h"
#include "session/memory_budget.h"
#include "session/meter.h"
#include "session/options.h"
#include "session/pending_incident.h"
#include "session/ring_watch.h"
#include "session/self_check.h"
#include "snapshot/modules.h"
#include "snapshot/snapshot.h"
#include "trace/clock.h"

namespace pitot::session {

class IncidentPipeline final : public FiringTaker {
 public:
  // The parts it works with. All outlive it.
  struct Parts {
    const OwnedOptions* options;
    MemoryBudget* budget;
    const Lifetime* lifetime;
    HostCalls* host;
    IncidentCounts* counts;
    base::Semaphore* wake_watcher;
    CpuThrottle* writer_throttle;
    CpuThrottle* throttle;  // the worker's
    Depths* depths;
    Meter* meter;
    IncidentFiles* files;
    Judging* judging;
    SelfCheck* self_check;
  };
  IncidentPipeline(bool slow_clock, const Parts& parts);

  // Called first: takes the memory for copies (false: there is none), and then the time of the recorder's start.
  bool MapReserve() noexcept;
  void Begin(const trace::ClockReading& start);

  // FiringTaker.
  bool Push(const Firing& firing, uint64_t begin_ticks) noexcept override;
  bool MayJoin() noexcept override;
  bool TakeStall(const Firing& firing, uint64_t begin_ticks) noexcept override;

  // The host's.
  // Fires for an incident, if the budget has one left.
  Status Ask(const char* reason) noexcept;
  // Waits until all incidents whose firings came before are finished.
  Status Flush(uint32_t timeout_ms) noexcept { return handover_.Flush(timeout_ms); }
  // The same, and meanwhile post windows end at once.
  Status FlushNow(uint32_t timeout_ms) noexcept;

  // The watcher's, in this order each round.
  // In how many ns an incident is due, or the rings must be looked at; INT64_MAX: there is none, or it waits for the
  // reserve to be free.
  int64_t DueInNs() const noexcept;
  bool IsStopping() noexcept { return handover_.IsStopping(); }
  void CollectFirings();
  void CopyIfDue(bool at_once);
  // Takes a sample for the judge, while there is nothing else to do, if anything was recorded since the one before.
  void TakeSampleIfDue();
  // Drops the pending incident, because the round has failed.
  void Fail(const std::exception& why) noexcept;
  bool HasPending() const noexcept { return pending_.IsPending(); }
  // Whether a firing or an incident is not finished.
  bool HasWork() noexcept { return HasPending() || !inbox_.IsEmpty() || !handover_.IsIdle(); }
  // Whether a firing has no dump yet, nor failed to get one. Safe in handlers of exit(): takes no lock.
  bool HasUnwritten() const noexcept {
    return inbox_.IsBeginningDue() || pending_.IsPending() || unwritten_.load() != 0;  // in the order of its way
  }
  // The last call: no more incidents come.
  void Close() noexcept { handover_.Close(); }

  // The work of the writer and of the worker: each returns after Close, once everything is done. EnterWorker comes
  // first on the worker, before any other work: its name and priority.
  void WriteDumps() noexcept;
  void EnterWorker() noexcept;
  void Work() noexcept;

  // For Stop, in this order.
  void BeginStop() noexcept { handover_.BeginStop(); }
  // False: the time was up before everything was finished.
  bool AwaitEnd(std::chrono::steady_clock::time_point deadline) noexcept { return handover_.AwaitEnd(deadline); }
  // After Lifetime::GiveUp: first has the watcher note it, later gives up what the writer has not taken.
  void NoteGivenUp() noexcept { handover_.NoteGivenUp(); }
  void GiveUpWaiting() noexcept;
  // If a thread hangs: gives up what waits for the worker.
  void GiveUpCases() noexcept;

 private:
  class AssembleLock;

  uint64_t NowTicks() const noexcept { return trace::NowTicks(slow_clock_); }

  // On the watcher.
  void TakeFiring(const QueuedFiring& firing);
  void WatchRings() noexcept;
  bool IsDue();
  void Limit(Incident* incident);
  void Copy(Incident* incident, const snapshot::Reserve& room);
  void HandOver(std::unique_ptr<Incident> incident);
  void FindCollectors(Incident* incident);
  // Counts and logs an incident for which Stop leaves no time.
  void GiveUpOn(const Incident& incident) noexcept;

  // On the writer.
  void WriteDump(std::unique_ptr<Incident> incident) noexcept;
  void LogNotRecorded(const model::Trace& trace);
  void LogNotKept(const model::Trace& trace);
  void Drop(Case* it, const Status& why, bool waits) noexcept;

  // On the worker. True: the incident is finished. False: it waits for files or findings.
  bool TakeUp(Case it) noexcept;
  bool Judge(Case it) noexcept;
  bool FinishJudged(Case judged) noexcept;
  bool PutBack(Case judged) noexcept;
  void CompleteIdle(Case* it) noexcept;  // at idle priority
  // On both. Counts what a judged case lacks.
  void LeaveUnfinished(const Case& judged) noexcept;

  // On the writer; for samples, on the worker, which makes their traces.
  // Returns the number of this call, from 1.
  uint64_t KeepCollected(const Incident& incident);
  CpuThrottle& ThrottleFor(const Incident& incident) noexcept {
    return incident.is_sample ? throttle_ : writer_throttle_;
  }
  model::Trace TakeTrace(Incident* incident) PITOT_EXCLUDES(assemble_mutex_);
  // `throttle` is the calling thread's.
  void FreeCopy(Incident* incident, CpuThrottle* throttle) noexcept;
  // `missing` becomes the calls that the host forgot, as far as no trace before says so.
  model::Trace MakeTrace(const Incident& incident, std::vector<std::string>* missing) PITOT_REQUIRES(assemble_mutex_);

  const bool slow_clock_;
  const OwnedOptions& options_;
  MemoryBudget& budget_;
  const Lifetime& lifetime_;
  HostCalls& host_;
  IncidentCounts& counts_;
  base::Semaphore& wake_watcher_;
  CpuThrottle& writer_throttle_;
  CpuThrottle& throttle_;
  Depths& depths_;
  Meter& meter_;
  IncidentFiles& files_;
  Judging& judging_;
  SelfCheck& self_check_;
  trace::ClockReading start_;

  FiringInbox inbox_;
  PendingIncident pending_;
  bool has_told_beyond_ = false;     // that collectors hold more than the budget has for them
  RingWatch rings_;                  // for the pending incident
  snapshot::Modules modules_;        // so that no library takes the names of another
  snapshot::ReserveMemory reserve_;  // the rooms of handover_
  Handover handover_;
  CaseQueue cases_;
  uint64_t events_sampled_ = 0;  // recorded before the last sample

  std::atomic<uint32_t> hurries_{0};      // calls of FlushNow
  std::atomic<uint64_t> keeps_{0};        // calls of KeepCollected
  std::atomic<uint32_t> unassembled_{0};  // handed over; while there are any, the watcher asks no collector
  std::atomic<uint32_t> unwritten_{0};    // incidents copied, whose dumps were not tried yet
  base::Mutex assemble_mutex_;            // held while a trace is made: collectors are asked one at a time
  std::set<std::string> logged_;          // by LogNotRecorded and LogNotKept; used by the writer only
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_INCIDENT_PIPELINE_H_
