// SPDX-License-Identifier: Apache-2.0
//
// The incident that is gathering firings, if there is one. A firing joins it, or begins one within the budget of its
// cause. It is due for its copy at the end of its post window.
#ifndef PITOT_LIB_SESSION_PENDING_INCIDENT_H_
#define PITOT_LIB_SESSION_PENDING_INCIDENT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/mutex.h"
#include "pitot/options.h"
#include "session/firing_queue.h"
#include "session/incident.h"
#include "session/incident_budget.h"

namespace pitot::session {

// The watcher's, except for IsPending and HasPlace.
class PendingIncident {
 public:
  static constexpr size_t kMostFirings = 256;  // listed; more are counted

  // `options` outlives it.
  explicit PendingIncident(const Options* options)
      : options_(*options), budget_(options->max_incidents_per_cause_and_hour) {}
  // Windows do not reach back to before the recorder's start.
  void SetStart(uint64_t ticks) { start_ticks_ = ticks; }

  // kRefused: its cause has used up its budget. kSuppressed: likewise, as at the last call, or it may only join, and
  // there is none.
  enum class Answer : uint8_t { kJoined, kBegan, kSuppressed, kRefused };
  // Takes a firing. May throw bad_alloc.
  Answer Take(const QueuedFiring& firing, int64_t now_ns, IncidentBudget::Reserve reserve) PITOT_EXCLUDES(mutex_);

  // Null: there is none.
  Incident* get() const noexcept { return incident_.get(); }
  std::unique_ptr<Incident> Release() noexcept;

  // Threads: any.
  bool IsPending() const noexcept { return is_pending_.load(); }
  // The verdict of an incident that began here.
  void NoteVerdict(const Incident& incident, IncidentBudget::Verdict verdict, int64_t now_ns) noexcept
      PITOT_EXCLUDES(mutex_);
  // Whether a firing of this cause could join or begin an incident. May throw bad_alloc.
  bool HasPlace(const char* cause, int64_t now_ns, IncidentBudget::Reserve reserve) PITOT_EXCLUDES(mutex_);

 private:
  void Join(const QueuedFiring& firing, uint64_t window_begin_ticks, int64_t due_ns) PITOT_EXCLUDES(mutex_);
  // The next incident of the cause counts them.
  void NoteRefused(const char* cause, uint64_t count) PITOT_EXCLUDES(mutex_);

  const Options& options_;
  uint64_t start_ticks_ = 0;
  uint64_t next_number_ = 1;
  std::unique_ptr<Incident> incident_;
  std::atomic<bool> is_pending_{false};  // incident_ is there

  base::Mutex mutex_;
  IncidentBudget budget_ PITOT_GUARDED_BY(mutex_);
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_PENDING_INCIDENT_H_
