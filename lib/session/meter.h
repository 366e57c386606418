// SPDX-License-Identifier: Apache-2.0
//
// The recorder's measurements of itself: Stats, from the counts of all its parts.
#ifndef PITOT_LIB_SESSION_METER_H_
#define PITOT_LIB_SESSION_METER_H_

#include <cstdint>
#include <vector>

#include "base/mutex.h"
#include "pitot/stats.h"
#include "session/depths.h"
#include "session/incident_counts.h"
#include "session/lifetime.h"
#include "session/memory_budget.h"
#include "session/own_threads.h"
#include "session/ring_ages.h"
#include "session/ring_watch.h"

namespace pitot::session {

class Meter {
 public:
  // All outlive it.
  Meter(const MemoryBudget* budget, bool slow_clock, int64_t window_ns, const Lifetime* lifetime,
        const IncidentCounts* counts, const OwnThreads* threads, Depths* depths)
      : budget_(*budget),
        slow_clock_(slow_clock),
        window_ns_(window_ns),
        lifetime_(*lifetime),
        counts_(*counts),
        threads_(*threads),
        depths_(*depths) {}

  // Called before all others: costs count from here on. Takes about 0.1 ms. May throw bad_alloc.
  void Begin();
  // Threads: any.
  Stats Count() noexcept PITOT_EXCLUDES(mutex_);
  // Nanoseconds since Begin, over which costs are counted. Threads: any.
  int64_t AgeNs() const noexcept;
  // Once the recorder has stopped, the last counts; of incidents, the present ones.
  Stats Get() noexcept PITOT_EXCLUDES(mutex_);
  // Keeps the last counts. Called by Stop, while threads and rings are there.
  void CountLast() noexcept PITOT_EXCLUDES(mutex_);

  // The watcher's.
  // The rings of living threads, and what a window that begins then needs of them. May throw bad_alloc.
  std::vector<RingAt> Rings() const;
  std::vector<WatchedRing> RingsFor(uint64_t window_begin_ticks) PITOT_EXCLUDES(mutex_);
  // Notes how far rings have been written, and which are too short for the window. Once a second at most. Called often.
  void NoteRings() noexcept PITOT_EXCLUDES(mutex_);
  // Lets those grow that were too short when last noted. Takes up to milliseconds.
  void GrowRings() noexcept;

 private:
  void AddHistory(Stats* stats) noexcept PITOT_EXCLUDES(mutex_);

  const MemoryBudget& budget_;
  const bool slow_clock_;
  const int64_t window_ns_;  // that rings should hold
  const Lifetime& lifetime_;
  const IncidentCounts& counts_;
  const OwnThreads& threads_;
  Depths& depths_;

  // Written by Begin.
  double scope_cost_ns_ = 0;
  int64_t start_ns_ = 0, start_cpu_ns_ = 0;
  uint64_t names_refused_before_ = 0;

  // Used by the watcher only.
  uint64_t ages_noted_ticks_ = 0;
  std::vector<trace::RingWish> wishes_;

  base::Mutex mutex_;
  RingAges ages_ PITOT_GUARDED_BY(mutex_);
  Stats last_ PITOT_GUARDED_BY(mutex_);
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_METER_H_
