// SPDX-License-Identifier: Apache-2.0
#include "trace/bus_guard.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <new>

#include "base/mutex.h"
#include "trace/former_action.h"

namespace pitot::trace {
namespace {

constexpr uintptr_t kGuardedPage = 4096;

// Read by the handler, in any thread at any moment: `end` counts once `begin` is set.
struct Range {
  std::atomic<uintptr_t> begin{0};  // 0: none
  std::atomic<uintptr_t> end{0};
};
constinit Range g_ranges[kMostGuarded];
constinit std::atomic<uint32_t> g_used{0};  // ranges from here on were never set
constinit std::atomic<uint64_t> g_pages_lost{0};
constinit base::Mutex g_guard_mutex;
constinit bool g_has_handler PITOT_GUARDED_BY(g_guard_mutex) = false;
Action g_before{};  // written once, before our handler is there

bool IsGuarded(uintptr_t at) {
  const uint32_t used = std::min(g_used.load(std::memory_order_acquire), kMostGuarded);
  for (uint32_t i = 0; i < used; ++i) {
    const uintptr_t begin = g_ranges[i].begin.load(std::memory_order_acquire);
    if (begin != 0 && begin <= at && at < g_ranges[i].end.load(std::memory_order_relaxed)) return true;
  }
  return false;
}

bool Replace(uintptr_t at) {
  void* const page = reinterpret_cast<void*>(at / kGuardedPage * kGuardedPage);
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  if (mmap(page, kGuardedPage, PROT_READ | PROT_WRITE, kFlags, -1, 0) == MAP_FAILED) return false;
  g_pages_lost.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void OnBus(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  if (info->si_code <= 0 || !IsGuarded(at) || !Replace(at)) PassOn(g_before, signal, info, context);
  errno = error;
}

bool Install() PITOT_REQUIRES(g_guard_mutex) {
  if (g_has_handler) return true;
  Action ours{};
  ours.sa_sigaction = OnBus;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigfillset(&ours.sa_mask);
  for (const int fault : {SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) sigdelset(&ours.sa_mask, fault);
  return g_has_handler = sigaction(SIGBUS, nullptr, &g_before) == 0 && sigaction(SIGBUS, &ours, nullptr) == 0;
}

}  // namespace

bool GuardRange(const void* begin, uint64_t bytes) noexcept {
  const base::MutexLock lock(&g_guard_mutex);
  if (!Install()) return false;
  const auto address = reinterpret_cast<uintptr_t>(begin);
  for (uint32_t i = 0; i < kMostGuarded; ++i) {
    if (g_ranges[i].begin.load(std::memory_order_relaxed) != 0) continue;
    g_ranges[i].end.store(address + bytes, std::memory_order_relaxed);
    g_ranges[i].begin.store(address, std::memory_order_release);
    if (i >= g_used.load(std::memory_order_relaxed)) g_used.store(i + 1, std::memory_order_release);
    return true;
  }
  return false;
}

void UnguardRange(const void* begin) noexcept {
  const base::MutexLock lock(&g_guard_mutex);
  for (Range& range : g_ranges) {
    if (range.begin.load(std::memory_order_relaxed) == reinterpret_cast<uintptr_t>(begin)) range.begin.store(0);
  }
}

void ForgetGuardedAfterFork() noexcept {
  new (&g_guard_mutex) base::Mutex;
  for (Range& range : g_ranges) range.begin.store(0);
}

uint64_t PagesLost() noexcept { return g_pages_lost.load(std::memory_order_relaxed); }

}  // namespace pitot::trace
