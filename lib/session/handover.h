// SPDX-License-Identifier: Apache-2.0
//
// Where the watcher hands copied incidents to the writer, with the room that copies have. It also knows when all
// incidents are finished, for Flush and Stop.
#ifndef PITOT_LIB_SESSION_HANDOVER_H_
#define PITOT_LIB_SESSION_HANDOVER_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>

#include "base/mutex.h"
#include "base/semaphore.h"
#include "pitot/status.h"
#include "session/incident.h"
#include "session/lifetime.h"
#include "snapshot/reserve_parts.h"

namespace pitot::session {

class Handover {
 public:
  // `wake_watcher` has the watcher look. Both outlive it.
  Handover(const Lifetime* lifetime, base::Semaphore* wake_watcher)
      : lifetime_(*lifetime), wake_watcher_(*wake_watcher) {}
  // Called first: the memory for copies.
  void Begin(const snapshot::Reserve& reserve) noexcept PITOT_EXCLUDES(mutex_);

  // The watcher's.
  // Copies take so many bytes at most from now on, together.
  void Limit(uint64_t bytes) noexcept PITOT_EXCLUDES(mutex_);
  // Room for a copy. Without room, `waits` waits for some, or for the recorder to give up. Empty: there is none.
  snapshot::Reserve AwaitRoom(bool waits) noexcept PITOT_EXCLUDES(mutex_);
  // Hands over an incident, or a sample, whose copy takes its room. Throws bad_alloc, and then nothing is handed over.
  void Give(std::unique_ptr<Incident> copied) PITOT_EXCLUDES(mutex_);
  // Whether nothing is copied, waits or is being written or judged.
  bool IsIdle() noexcept PITOT_EXCLUDES(mutex_);
  // The number of Flushes so far. Asked before the watcher collects firings. If nothing is pending afterwards, it
  // answers that many. They end if nothing is unfinished either.
  uint64_t FlushesAsked() noexcept PITOT_EXCLUDES(mutex_);
  void AnswerFlushes(uint64_t asked) noexcept PITOT_EXCLUDES(mutex_);
  bool IsStopping() noexcept PITOT_EXCLUDES(mutex_);
  // Nothing more is handed over.
  void Close() noexcept PITOT_EXCLUDES(mutex_);

  // The writer's. Waits for an incident. Null: nothing more comes.
  std::unique_ptr<Incident> Await() noexcept PITOT_EXCLUDES(mutex_);
  // A copied incident that the writer has not taken, if there is one. Also called by Stop.
  std::unique_ptr<Incident> TakeWaiting() noexcept PITOT_EXCLUDES(mutex_);

  // The writer's and the worker's. The room of a copy is free; the incident is finished.
  void FreeRoom(const snapshot::Filled& filled) noexcept PITOT_EXCLUDES(mutex_);
  void Finish() noexcept PITOT_EXCLUDES(mutex_);

  // The host's. Waits until all incidents whose firings came before are finished.
  Status Flush(uint32_t timeout_ms) noexcept PITOT_EXCLUDES(mutex_);

  // For Stop, in this order.
  void BeginStop() noexcept PITOT_EXCLUDES(mutex_);
  // False: the time was up before everything was finished.
  bool AwaitEnd(std::chrono::steady_clock::time_point deadline) noexcept PITOT_EXCLUDES(mutex_);
  // Wakes the watcher in AwaitRoom, after Lifetime::GiveUp.
  void NoteGivenUp() noexcept PITOT_EXCLUDES(mutex_);

 private:
  std::unique_ptr<Incident> Next() noexcept PITOT_REQUIRES(mutex_);
  bool IsOver() const noexcept PITOT_REQUIRES(mutex_) { return is_closed_ && unfinished_ == 0; }

  const Lifetime& lifetime_;
  base::Semaphore& wake_watcher_;

  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<std::unique_ptr<Incident>> copied_ PITOT_GUARDED_BY(mutex_);  // the reserve bounds their number
  snapshot::ReserveParts rooms_ PITOT_GUARDED_BY(mutex_);
  uint64_t unfinished_ PITOT_GUARDED_BY(mutex_) = 0;  // handed over
  bool is_stopping_ PITOT_GUARDED_BY(mutex_) = false;
  bool is_closed_ PITOT_GUARDED_BY(mutex_) = false;
  uint64_t flushes_asked_ PITOT_GUARDED_BY(mutex_) = 0, flushes_done_ PITOT_GUARDED_BY(mutex_) = 0;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_HANDOVER_H_
