// SPDX-License-Identifier: Apache-2.0
#include "session/own_threads.h"

#include <pthread.h>

#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/loader_lock.h"
#include "base/signals.h"

namespace pitot::session {

using base::MutexLock;

void OwnThreads::Start(Role role, std::function<void()> run) {
  const MutexLock lock(&mutex_);
  const base::SignalsBlocked blocked;  // the thread inherits this
  std::thread& thread = threads_[static_cast<size_t>(role)];
  thread = std::thread([this, run = std::move(run)] {
    base::BecomeOwnThread();
    run();
    End();
  });
  ++running_;
  clockid_t id;
  if (pthread_getcpuclockid(thread.native_handle(), &id) == 0) clocks_[static_cast<size_t>(role)].store(id);
}

void OwnThreads::End() noexcept {
  std::shared_ptr<void> last;  // destroyed after the lock is released
  const MutexLock lock(&mutex_);
  if (--running_ == 0) last = std::move(kept_);
  changed_.NotifyAll();
}

int64_t OwnThreads::CpuNs() const noexcept {
  int64_t total = 0;
  for (const auto& clock : clocks_) {
    if (const clockid_t id = clock.load(); id != 0) total += base::ClockNs(id);
  }
  return total;
}

bool OwnThreads::Join(std::shared_ptr<void> kept, int64_t patience_ns) noexcept {
  std::thread ended[kRoles];
  {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(patience_ns);
    const MutexLock lock(&mutex_);
    while (running_ != 0 && changed_.WaitUntil(&mutex_, deadline)) {}
    if (running_ != 0) {
      kept_ = std::move(kept);
      return false;
    }
    for (size_t i = 0; i < kRoles; ++i) ended[i] = std::move(threads_[i]);
  }
  for (std::thread& thread : ended) {
    if (thread.joinable()) thread.join();
  }
  return true;
}

void OwnThreads::Detach() noexcept {
  const MutexLock lock(&mutex_);
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.detach();
  }
}

void OwnThreads::KeepForever(std::shared_ptr<void> kept) noexcept {
  const MutexLock lock(&mutex_);
  ++running_;  // it never ends
  kept_ = std::move(kept);
}

}  // namespace pitot::session
