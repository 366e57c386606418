// SPDX-License-Identifier: Apache-2.0
//
// The collectors, and the depth at which each must record: fixed by the host, or chosen by the governor. While a
// request is slow, everything is recorded. The teller, a thread of its own, tells collectors what the governor has
// chosen: it may have to wait for a device's driver.
#ifndef PITOT_LIB_SESSION_DEPTHS_H_
#define PITOT_LIB_SESSION_DEPTHS_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/semaphore.h"
#include "governor/governor.h"
#include "pitot/depth.h"
#include "pitot/extend/collector.h"
#include "pitot/extend/trigger.h"
#include "pitot/options.h"
#include "pitot/stats.h"
#include "pitot/status.h"
#include "session/depth_history.h"
#include "session/host_calls.h"
#include "session/incident.h"
#include "session/lifetime.h"

namespace pitot::session {

class Depths {
 public:
  // `start_teller` has a thread call Tell; it may throw. `wake_watcher` has the watcher look. All outlive this.
  Depths(const Options* options, bool slow_clock, const Lifetime* lifetime, const HostCalls* host,
         base::Semaphore* wake_watcher, std::function<void()> start_teller,
         base::ClockFunction clock = base::MonotonicNs);

  // For the host. Add starts a collector and takes it; Add and Ask log their errors.
  Status Add(std::unique_ptr<Collector> collector) noexcept PITOT_EXCLUDES(tell_mutex_, mutex_);
  Status Set(Depth depth) noexcept PITOT_EXCLUDES(tell_mutex_, mutex_);
  // Asks the collectors of this name (to pause, to resume); returns the first error.
  Status Ask(std::string_view name, Status (Collector::*ask)() noexcept) noexcept PITOT_EXCLUDES(tell_mutex_, mutex_);

  // Threads: any.
  // The depth fixed by the host; kAuto: none.
  Depth fixed() const noexcept { return fixed_.load(); }
  void CopyTo(DepthStats* stats) noexcept PITOT_EXCLUDES(mutex_);
  uint64_t HeldBytes() noexcept PITOT_EXCLUDES(mutex_);
  // May throw bad_alloc, like the next.
  std::vector<Collector*> Collectors() PITOT_EXCLUDES(mutex_);
  // The collectors that could not start: name and reason.
  std::map<std::string, std::string> Refused() PITOT_EXCLUDES(mutex_);

  // On the host's threads, about finished work. Without batches, works are requests.
  void NoteRequest(const RequestView& request) noexcept {
    if (!has_batches_.load(std::memory_order_relaxed) && request.outcome == Outcome::kOk)
      NoteWork(request.route_index << 16 | request.size_bucket, request.latency_ns);
  }
  void NoteBatch(uint32_t executor, uint32_t members, uint64_t duration_ns) noexcept;
  // A late request joined a batch.
  void NoteLateMember() noexcept;

  // The watcher's. The next three only while it is governed: there is a collector, and the host has fixed no depth.
  bool IsGoverned() const noexcept;
  // Lets the governor choose.
  void Govern() noexcept PITOT_EXCLUDES(mutex_);
  // Records everything from now on, for this long.
  void ArmFor(int64_t ns) noexcept PITOT_EXCLUDES(mutex_);
  // Arms if an open request is late, or joined a batch late. Returns in how many ns the next becomes late.
  int64_t ArmForLateRequests() noexcept PITOT_EXCLUDES(mutex_);
  // In how many ns the governor moves on, if no work comes; INT64_MAX: it does not.
  int64_t DueInNs() noexcept PITOT_EXCLUDES(mutex_);
  // Gives a copied incident its depths and their cost. May throw bad_alloc.
  void Keep(Incident* incident) PITOT_EXCLUDES(mutex_);

  // The teller's work: returns after BeginStop.
  void Tell() noexcept PITOT_EXCLUDES(tell_mutex_, mutex_);
  // Tells collectors their depth. Returns when everything due before the call is told: waits for collectors, and for
  // another thread telling them. A depth that becomes due meanwhile is told by the next call.
  // Nothing is told once the recorder is stopping.
  void TellAll() noexcept PITOT_EXCLUDES(tell_mutex_, mutex_);

  // For Stop, in this order. From BeginStop on no collector is added, and the teller ends.
  void BeginStop() noexcept PITOT_EXCLUDES(mutex_);
  // False: it has not ended in time.
  bool AwaitTeller(std::chrono::steady_clock::time_point deadline) noexcept PITOT_EXCLUDES(mutex_);
  // Stops the collectors, once Pitot's threads are gone: only threads of the host may be telling or asking one. False
  // if such a call does not return: then none is stopped.
  bool StopCollectors(int64_t patience_ns) noexcept PITOT_EXCLUDES(tell_mutex_, mutex_);

 private:
  // A collector and its depth.
  struct Governed {
    std::unique_ptr<Collector> collector;
    uint32_t depths = 0;           // Collector::Depths, when it was last asked
    Depth expects = Depth::kAuto;  // Collector::ExpectDepth, as last told
    Depth told = Depth::kAuto;     // kAuto: nothing yet
    bool is_armed = false;         // Collector::Arm, as last told
  };

  int64_t NowNs() const noexcept { return static_cast<int64_t>(clock_()); }
  Status Refuse(const Collector& collector, Status why) noexcept PITOT_EXCLUDES(mutex_);
  bool Take(std::unique_ptr<Collector>* collector, Depth expected) noexcept PITOT_EXCLUDES(mutex_);
  bool MakeRoomFor(const Collector& collector) noexcept PITOT_REQUIRES(mutex_);
  void MakeGovernor() noexcept PITOT_REQUIRES(mutex_);
  bool IsKnown(std::string_view name) noexcept PITOT_EXCLUDES(mutex_);
  Collector* At(size_t i) noexcept PITOT_EXCLUDES(mutex_);
  uint32_t AskDepths() noexcept PITOT_EXCLUDES(mutex_);
  Depth DueOf(const Governed& governed) const noexcept PITOT_REQUIRES(mutex_);
  bool IsArmed() const noexcept PITOT_REQUIRES(mutex_);
  void Apply(Depth depth) noexcept PITOT_REQUIRES(mutex_);
  void NoteDepth() noexcept PITOT_REQUIRES(mutex_);
  void NoteWork(uint32_t work_class, uint64_t duration_ns) noexcept;

  const Options& options_;
  const bool slow_clock_;
  const Lifetime& lifetime_;
  const HostCalls& host_;
  base::Semaphore& wake_watcher_;
  const std::function<void()> start_teller_;
  const base::ClockFunction clock_;

  base::Semaphore tell_;                              // wakes the teller
  std::atomic<Depth> fixed_;                          // kAuto: none
  std::atomic<governor::Governor*> noting_{nullptr};  // governor_, for threads of the host
  std::atomic<bool> has_batches_{false};              // works are batches, otherwise requests
  std::atomic<bool> is_late_{false};                  // a late request joined a batch

  // Held while collectors are told, asked or stopped. Nothing is told or asked once it was taken after the recorder's
  // end.
  base::Mutex tell_mutex_ PITOT_ACQUIRED_BEFORE(mutex_);
  base::Mutex mutex_;  // not held in any call of a collector, except Name; held in `start_teller`
  base::CondVar changed_;
  Depth depth_ PITOT_GUARDED_BY(mutex_);                     // of the process
  std::vector<Governed> governed_ PITOT_GUARDED_BY(mutex_);  // may grow, never shrinks
  std::map<std::string, std::string> refused_ PITOT_GUARDED_BY(mutex_);
  DepthHistory history_ PITOT_GUARDED_BY(mutex_);
  // Made with the first collector. Note needs no lock.
  std::unique_ptr<governor::Governor> governor_ PITOT_GUARDED_BY(mutex_) PITOT_PT_GUARDED_BY(mutex_);
  bool has_teller_ PITOT_GUARDED_BY(mutex_) = false;
  bool is_teller_done_ PITOT_GUARDED_BY(mutex_) = false;
  bool is_stopping_ PITOT_GUARDED_BY(mutex_) = false;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_DEPTHS_H_
