// SPDX-License-Identifier: Apache-2.0
//
// The recorder's own threads. At the end each is waited for. One that does not come back, because the host's code holds
// it, is left behind with everything it works on.
#ifndef PITOT_LIB_SESSION_OWN_THREADS_H_
#define PITOT_LIB_SESSION_OWN_THREADS_H_

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "base/mutex.h"

namespace pitot::session {

class OwnThreads {
 public:
  enum class Role : uint8_t { kWatcher, kWriter, kWorker, kTeller, kEnds };

  // Starts a thread that does `run`, once for each role. Signals are blocked on it. `run` must not throw. Throws
  // bad_alloc and system_error.
  void Start(Role role, std::function<void()> run) PITOT_EXCLUDES(mutex_);
  // CPU time of all threads so far, ns. Threads: any.
  int64_t CpuNs() const noexcept;

  // Waits until all threads have ended. False: the time was up before; then `kept` lives until the last has ended.
  bool Join(std::shared_ptr<void> kept, int64_t patience_ns) noexcept PITOT_EXCLUDES(mutex_);
  // Leaves behind those that have not ended. Called if Join has failed.
  void Detach() noexcept PITOT_EXCLUDES(mutex_);
  // Keeps an object for the life of the process. Called after the two.
  void KeepForever(std::shared_ptr<void> kept) noexcept PITOT_EXCLUDES(mutex_);

 private:
  static constexpr size_t kRoles = 5;

  // The last call of each thread.
  void End() noexcept PITOT_EXCLUDES(mutex_);

  std::atomic<clockid_t> clocks_[kRoles]{};  // their CPU time; 0: unknown
  base::Mutex mutex_;
  base::CondVar changed_;
  std::thread threads_[kRoles] PITOT_GUARDED_BY(mutex_);
  uint32_t running_ PITOT_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<void> kept_ PITOT_GUARDED_BY(mutex_);  // holds this, as a rule
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_OWN_THREADS_H_
