// SPDX-License-Identifier: Apache-2.0
//
// A running recorder: owns its parts and its threads, starts them, stops them, and passes on what the host adds. The
// watcher, a thread at normal priority, collects firings, looks for stalls, governs depth and copies rings. The writer,
// at normal priority as well, writes their dumps. The worker, at idle priority, adds the other files and has incidents
// judged. With the first collector comes the teller (depths.h).
#ifndef PITOT_LIB_SESSION_SESSION_H_
#define PITOT_LIB_SESSION_SESSION_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/mutex.h"
#include "base/semaphore.h"
#include "base/timer.h"
#include "ends/ends.h"
#include "pitot/extend/collector.h"
#include "pitot/extend/judge.h"
#include "pitot/extend/serializer.h"
#include "pitot/extend/trigger.h"
#include "pitot/health.h"
#include "pitot/hooks.h"
#include "pitot/stats.h"
#include "session/black_box.h"
#include "session/cpu_throttle.h"
#include "session/depths.h"
#include "session/host_calls.h"
#include "session/incident_counts.h"
#include "session/incident_files.h"
#include "session/incident_pipeline.h"
#include "session/judging.h"
#include "session/lifetime.h"
#include "session/memory_budget.h"
#include "session/meter.h"
#include "session/options.h"
#include "session/own_threads.h"
#include "session/previous_lives.h"
#include "session/triggers.h"
#include "trace/requests.h"

namespace pitot::session {

class Session final : public std::enable_shared_from_this<Session>, trace::RequestObserver, public ends::Flushed {
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
  // Asks the collectors of this name; returns the first error.
  Status AskCollector(const char* name, Status (Collector::*ask)() noexcept) noexcept;
  Status Ask(const char* reason) noexcept;
  Status Flush(uint32_t timeout_ms) noexcept;
  Stats GetStats() noexcept { return meter_.Get(); }
  Health GetHealth(uint32_t stalled_after_ms) noexcept;
  void Stop(uint32_t timeout_ms) noexcept PITOT_EXCLUDES(stop_mutex_);

  // ends::Flushed. Post windows end at once.
  void FlushAtEnd(ends::HostState host, uint32_t grace_ms) noexcept override;

 private:
  // trace::RequestObserver, on the host's threads.
  void OnFinish(const RequestView& request, uint64_t begin_ticks) noexcept override;
  void OnTokens(const RequestView& request, uint64_t begin_ticks, uint64_t gap_ns) noexcept override;
  void OnBatch(uint32_t executor, uint32_t members, uint64_t duration_ns) noexcept override;
  void OnLateMember() noexcept override;
  void OnWork() noexcept override;
  uint64_t LateAfterNs(const char* route) noexcept override;

  Status StartThreads();
  Status HandleEnds();
  bool JoinThreads() noexcept;

  // The watcher's work.
  struct OpenWork {
    int64_t late_in_ns = INT64_MAX;     // when the next open request becomes late
    int64_t scope_open_ns = INT64_MAX;  // how long the newest open scope has been
  };
  void Watch() noexcept;
  void LogRemovedBox() noexcept;
  OpenWork LookAtOpenWork(const Triggers::Watched& watched) noexcept;

  const OwnedOptions options_;
  const bool slow_clock_;
  bool is_claimed_ = false;       // the process is, for this session
  Session* next_kept_ = nullptr;  // of those that live as long as the process

  // Its parts, upstream first: each knows only parts above it.
  Lifetime lifetime_;
  HostCalls host_;
  IncidentCounts counts_;
  OwnThreads threads_;
  base::Semaphore wake_watcher_;
  std::atomic<bool> has_work_begun_{false};  // while a thread of Pitot may have been resting
  base::SystemTimer writer_timer_, worker_timer_;
  CpuThrottle writer_throttle_, throttle_;
  Depths depths_;
  MemoryBudget budget_;
  Meter meter_;
  IncidentFiles files_;
  Judging judging_;
  SelfCheck self_check_;
  BlackBox black_box_;
  PreviousLives previous_lives_;
  IncidentPipeline pipeline_;
  Triggers triggers_;

  base::Mutex stop_mutex_;  // held by Stop; taken before all mutexes of the parts
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_SESSION_H_
