// SPDX-License-Identifier: Apache-2.0
//
// Where the watcher hands incidents to the worker: one copied incident at most waits here. It also knows when all
// incidents are written, for Flush and Stop.
#ifndef PITOT_LIB_SESSION_HANDOVER_H_
#define PITOT_LIB_SESSION_HANDOVER_H_

#include <chrono>
#include <cstdint>
#include <memory>

#include "base/mutex.h"
#include "base/semaphore.h"
#include "pitot/status.h"
#include "session/incident.h"
#include "session/lifetime.h"

namespace pitot::session {

class Handover {
 public:
  // `wake_watcher` has the watcher look. Both outlive it.
  Handover(const Lifetime* lifetime, base::Semaphore* wake_watcher)
      : lifetime_(*lifetime), wake_watcher_(*wake_watcher) {}

  // The watcher's.
  // Whether a copy may be made: the reserve is free. Otherwise it holds an earlier incident; `waits` waits for the
  // worker to free it, or for the recorder to give up.
  enum class Room : uint8_t { kFree, kInUse, kGivenUp };
  Room AwaitRoom(bool waits) noexcept PITOT_EXCLUDES(mutex_);
  // Hands over an incident, or a sample, whose copy takes the reserve.
  void Give(std::unique_ptr<Incident> copied) noexcept PITOT_EXCLUDES(mutex_);
  // Whether nothing is copied, waits or is being written.
  bool IsIdle() noexcept PITOT_EXCLUDES(mutex_);
  // The number of Flushes so far. Asked before the watcher collects firings. If nothing is pending afterwards, it
  // answers that many. They end if nothing is being written either.
  uint64_t FlushesAsked() noexcept PITOT_EXCLUDES(mutex_);
  void AnswerFlushes(uint64_t asked) noexcept PITOT_EXCLUDES(mutex_);
  bool IsStopping() noexcept PITOT_EXCLUDES(mutex_);
  // Nothing more is handed over.
  void Close() noexcept PITOT_EXCLUDES(mutex_);

  // The worker's.
  // Waits for an incident; the worker is busy from then on until Done. Null: nothing more comes.
  std::unique_ptr<Incident> Await() noexcept PITOT_EXCLUDES(mutex_);
  // The waiting incident, if there is one. Also called by Stop.
  std::unique_ptr<Incident> TakeWaiting() noexcept PITOT_EXCLUDES(mutex_);
  void FreeReserve() noexcept PITOT_EXCLUDES(mutex_);
  void Done() noexcept PITOT_EXCLUDES(mutex_);

  // The host's. Waits until all incidents whose firings came before are written.
  Status Flush(uint32_t timeout_ms) noexcept PITOT_EXCLUDES(mutex_);

  // For Stop, in this order.
  void BeginStop() noexcept PITOT_EXCLUDES(mutex_);
  // False: the time was up before everything was written.
  bool AwaitEnd(std::chrono::steady_clock::time_point deadline) noexcept PITOT_EXCLUDES(mutex_);
  // Wakes the watcher in AwaitRoom, after Lifetime::GiveUp.
  void NoteGivenUp() noexcept PITOT_EXCLUDES(mutex_);

 private:
  bool IsOver() const noexcept PITOT_REQUIRES(mutex_) { return is_closed_ && copied_ == nullptr && !is_busy_; }

  const Lifetime& lifetime_;
  base::Semaphore& wake_watcher_;

  base::Mutex mutex_;
  base::CondVar changed_;
  std::unique_ptr<Incident> copied_ PITOT_GUARDED_BY(mutex_);
  bool is_reserve_in_use_ PITOT_GUARDED_BY(mutex_) = false;  // from the copy until the worker has made a trace of it
  bool is_busy_ PITOT_GUARDED_BY(mutex_) = false;            // the worker is
  bool is_stopping_ PITOT_GUARDED_BY(mutex_) = false;
  bool is_closed_ PITOT_GUARDED_BY(mutex_) = false;
  uint64_t flushes_asked_ PITOT_GUARDED_BY(mutex_) = 0, flushes_done_ PITOT_GUARDED_BY(mutex_) = 0;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_HANDOVER_H_
