// SPDX-License-Identifier: Apache-2.0
//
// The conductor: opens the gate, listens to triggers, takes snapshots and has incidents written. The watcher, a thread
// at normal priority, collects firings, looks for stalls, governs depth and copies rings. The worker, at idle priority,
// does the rest. With the first collector comes the teller: it tells collectors their depth and may wait for them.
#ifndef PITOT_LIB_SESSION_SESSION_H_
#define PITOT_LIB_SESSION_SESSION_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/semaphore.h"
#include "pitot/extend/collector.h"
#include "pitot/extend/judge.h"
#include "pitot/extend/serializer.h"
#include "pitot/extend/trigger.h"
#include "pitot/hooks.h"
#include "pitot/model/trace.h"
#include "pitot/stats.h"
#include "session/depths.h"
#include "session/firing_inbox.h"
#include "session/handover.h"
#include "session/host_calls.h"
#include "session/incident.h"
#include "session/incident_counts.h"
#include "session/incident_files.h"
#include "session/judging.h"
#include "session/lifetime.h"
#include "session/meter.h"
#include "session/options.h"
#include "session/own_threads.h"
#include "session/pending_incident.h"
#include "session/site_names.h"
#include "session/worker_pace.h"
#include "snapshot/snapshot.h"
#include "trace/requests.h"

namespace pitot::session {

class Session final : public std::enable_shared_from_this<Session>, trace::RequestObserver, FiringSink {
 public:
  // Claims the process, opens the gate and starts the threads. Null and `*status` on failure.
  static std::shared_ptr<Session> Start(const Options& options, Status* status) noexcept;
  Session(OwnedOptions options, bool slow_clock);
  ~Session();

  Status status() const noexcept { return lifetime_.status(); }
  Status AddTrigger(std::unique_ptr<Trigger> trigger) noexcept;
  Status AddSerializer(std::unique_ptr<Serializer> serializer) noexcept;
  Status AddCollector(std::unique_ptr<Collector> collector) noexcept;
  Status AddJudge(std::unique_ptr<Judge> judge) noexcept;
  Status SetHooks(const Hooks& hooks) noexcept;
  Status SetDepth(Depth depth) noexcept;
  // Asks each collector; returns the first error.
  Status AskCollectors(Status (Collector::*ask)() noexcept) noexcept;
  Status Ask(const char* reason) noexcept;
  Status Flush(uint32_t timeout_ms) noexcept;
  Stats GetStats() noexcept { return meter_.Get(); }
  void Stop(uint32_t timeout_ms) noexcept;

 private:
  static constexpr uint32_t kMaxTriggers = 32;

  // Passes on firings about a request or a scope, with its begin.
  class OpenedSink final : public FiringSink {
   public:
    using FireOn = bool (Session::*)(const Firing& firing, uint64_t begin_ticks) noexcept;
    OpenedSink(Session* session, FireOn fire, uint64_t begin_ticks)
        : session_(session), fire_(fire), begin_ticks_(begin_ticks) {}
    bool Fire(const Firing& firing) noexcept override { return (session_->*fire_)(firing, begin_ticks_); }
    bool MayJoin() noexcept override { return session_->MayJoin(); }

   private:
    Session* session_;
    FireOn fire_;
    uint64_t begin_ticks_;
  };

  // trace::RequestObserver, on the host's threads.
  void OnFinish(const RequestView& request, uint64_t begin_ticks) noexcept override;
  void OnTokens(const RequestView& request, uint64_t begin_ticks, uint64_t gap_ns) noexcept override;
  void OnBatch(uint32_t executor, uint32_t members, uint64_t duration_ns) noexcept override;
  void OnLateMember() noexcept override;
  uint64_t LateAfterNs(const char* route) noexcept override;
  // FiringSink, on any thread.
  bool Fire(const Firing& firing) noexcept override;
  bool MayJoin() noexcept override;
  bool FireOn(const Firing& firing, uint64_t begin_ticks) noexcept;

  Status StartThreads();
  // Counts and logs an incident for which Stop leaves no time.
  void GiveUpOn(const Incident& incident) noexcept;
  bool JoinThreads() noexcept;

  // The watcher.
  void Watch() noexcept;
  void CollectFirings();
  void TakeFiring(const QueuedFiring& firing);
  bool TakeStall(const Firing& firing, uint64_t begin_ticks) noexcept;
  void LookForStalledRequests() noexcept;
  void LookForStalledScopes() noexcept;
  void CopyIfDue(bool at_once);
  void CopyTo(Incident* incident, uint64_t most_bytes);
  void HandOver(std::unique_ptr<Incident> incident);
  void TakeSampleIfDue();
  void KeepCollected(Incident* incident);

  // The worker.
  void Work() noexcept;
  void TakeCopied(std::unique_ptr<Incident> incident) noexcept;
  void WriteIncident(std::unique_ptr<Incident> incident) noexcept;
  void SayWhatIsNotRecorded(const model::Trace& trace);
  model::Trace TakeTrace(Incident* incident);
  model::Trace MakeTrace(const Incident& incident);
  void AddAttributes(const Incident& incident, model::Trace* trace);
  bool WriteWaiting() noexcept;

  const OwnedOptions options_;
  const bool slow_clock_;
  const MemorySplit split_;
  trace::ClockReading start_;

  Lifetime lifetime_;
  HostCalls host_;
  IncidentCounts counts_;
  OwnThreads threads_;
  std::atomic<uint32_t> trigger_count_{0};
  std::unique_ptr<Trigger> triggers_[kMaxTriggers];  // written once, below the count, then only read
  FiringInbox inbox_;
  base::Semaphore wake_;  // wakes the watcher
  Depths depths_;
  Meter meter_;

  // Used by the watcher only.
  PendingIncident pending_;
  snapshot::ReserveMemory reserve_;
  SiteNames site_names_;
  int64_t late_in_ns_ = INT64_MAX;  // when the next open request becomes late

  Handover handover_;
  std::mutex mutex_;
  Session* next_kept_ = nullptr;

  base::SystemTimer worker_timer_;
  WorkerPace pace_;
  IncidentFiles files_;
  Judging judging_;
  bool is_claimed_ = false;  // the process is, for this session

  // Used by the worker only.
  std::set<std::string> said_;  // reasons logged by SayWhatIsNotRecorded

  std::mutex stop_mutex_;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_SESSION_H_
