// SPDX-License-Identifier: Apache-2.0
#include "base/loader_lock.h"

#include <pthread.h>
#include <time.h>

#include <atomic>
#include <new>

#include "base/clock.h"
#include "base/mutex.h"

namespace pitot::base {
namespace {

constinit Mutex g_loader_mutex;
constinit std::atomic<pthread_t> g_forking_thread{0};  // holds the mutex; 0: a thread of Pitot, or none
constinit std::atomic<bool> g_holds_forks{false}, g_was_forked_inside{false};
// Initial-exec: handlers of signals read it, and other variables of a thread may be allocated at their first use.
[[gnu::tls_model("initial-exec")]] constinit thread_local bool t_is_own_thread = false;
constinit thread_local uint32_t t_loader_uses = 0;

// These three hold the mutex from one to the next, which the analysis cannot follow. They use no thread-local variable:
// its first use may need the loader.

// If the time is up, the fork goes on: its thread may be the one that others in the loader wait for. It looks again and
// again, because ThreadSanitizer does not know pthread_mutex_clocklock.
void BeforeFork() PITOT_NO_THREAD_SAFETY_ANALYSIS {
  const int64_t until_ns = ClockNs(CLOCK_MONOTONIC) + g_fork_patience_ns.load();
  while (!g_loader_mutex.TryLock()) {
    if (ClockNs(CLOCK_MONOTONIC) >= until_ns) return;
    const timespec pause = {0, 50'000};
    nanosleep(&pause, nullptr);
  }
  g_forking_thread.store(pthread_self());
}

void AfterForkInParent() PITOT_NO_THREAD_SAFETY_ANALYSIS {
  if (g_forking_thread.load() != pthread_self()) return;
  g_forking_thread.store(0);
  g_loader_mutex.Unlock();
}

void AfterForkInChild() PITOT_NO_THREAD_SAFETY_ANALYSIS {
  const pthread_t holder = g_forking_thread.exchange(0);
  if (holder == pthread_self()) return g_loader_mutex.Unlock();
  if (holder == 0) g_was_forked_inside.store(true);  // otherwise another fork had the mutex
  new (&g_loader_mutex) Mutex;
}

}  // namespace

bool HoldForksForLoader() noexcept {
  // Without a lock: a child forked meanwhile would inherit it.
  if (g_holds_forks.exchange(true)) return true;
  if (pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild) == 0) return true;
  g_holds_forks.store(false);
  return false;
}

void BecomeOwnThread() noexcept { t_is_own_thread = true; }

bool IsOwnThread() noexcept { return t_is_own_thread; }

LoaderUse::LoaderUse() noexcept PITOT_NO_THREAD_SAFETY_ANALYSIS : is_counted_(t_is_own_thread) {
  if (is_counted_ && t_loader_uses++ == 0) g_loader_mutex.Lock();
}

LoaderUse::~LoaderUse() PITOT_NO_THREAD_SAFETY_ANALYSIS {
  if (is_counted_ && --t_loader_uses == 0) g_loader_mutex.Unlock();
}

bool WasForkedInsideLoader() noexcept { return g_was_forked_inside.load(); }

}  // namespace pitot::base
