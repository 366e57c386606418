// SPDX-License-Identifier: Apache-2.0
//
// Incidents on their way from the writer, which has their dumps on disk, to the worker, which adds the rest: first the
// verdict of each, in their order, and what can wait when no verdict is awaited. Their traces stay in memory meanwhile:
// at most eight. Before another trace is made, they have room in their part of the budget, with the worker's work on
// one.
#ifndef PITOT_LIB_SESSION_CASE_QUEUE_H_
#define PITOT_LIB_SESSION_CASE_QUEUE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "session/case_room.h"
#include "session/incident.h"

namespace pitot::session {

class CaseQueue {
 public:
  static constexpr size_t kMostWaiting = 8;  // with their traces
  static constexpr size_t kMostCases = 64;   // with and without

  // The writer's.
  // Called before a trace is made: has the others fit into the room, whichever of them the worker takes. Without room
  // they are displaced: they lose their traces, and keep their turn. First go judged ones, then those that have waited
  // longest, because the host looks at the latest.
  void MakeRoom(const CaseRoom& room) noexcept PITOT_EXCLUDES(mutex_);
  // A ninth trace displaces another. If there are too many cases even so, returns the oldest, which does not wait any
  // more. Throws bad_alloc, and then `added` is as it was.
  [[nodiscard]] std::optional<Case> Add(Case&& added) PITOT_EXCLUDES(mutex_);
  // No more are added.
  void Close() noexcept PITOT_EXCLUDES(mutex_);

  // The worker's. Waits for the next; the one before is done. None: no more come.
  std::optional<Case> Await() noexcept PITOT_EXCLUDES(mutex_);
  // Has a judged case wait for files or findings, without its trace if there is no room. Throws bad_alloc, and then
  // `judged` is as it was.
  void PutBack(Case&& judged) PITOT_EXCLUDES(mutex_);
  // Whether an incident waits for its verdict. Threads: any.
  bool IsVerdictAwaited() const noexcept { return awaited_.load(std::memory_order_relaxed) != 0; }
  // Whether nothing waits.
  bool IsEmpty() noexcept PITOT_EXCLUDES(mutex_);

  // For Stop, if the worker hangs: the next one waiting, if there is one.
  std::optional<Case> TakeWaiting() noexcept PITOT_EXCLUDES(mutex_);

 private:
  struct Waiting {
    Case it;
    uint64_t bytes;  // of the trace, about; 0: it has none
  };
  std::optional<Case> Next() noexcept PITOT_REQUIRES(mutex_);
  Case TakeAt(std::vector<Waiting>::iterator at) noexcept PITOT_REQUIRES(mutex_);
  void Push(Case&& added) PITOT_REQUIRES(mutex_);
  void CountAwaited() noexcept PITOT_REQUIRES(mutex_);
  bool Fit(const CaseRoom& room) const noexcept PITOT_REQUIRES(mutex_);
  void Displace(const CaseRoom& room) noexcept PITOT_REQUIRES(mutex_);

  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<Waiting> waiting_ PITOT_GUARDED_BY(mutex_);
  bool is_busy_ PITOT_GUARDED_BY(mutex_) = false;     // the worker is, with a verdict or a sample
  uint64_t busy_bytes_ PITOT_GUARDED_BY(mutex_) = 0;  // of the trace that it works on, about
  bool is_closed_ PITOT_GUARDED_BY(mutex_) = false;
  std::atomic<size_t> awaited_{0};
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_CASE_QUEUE_H_
