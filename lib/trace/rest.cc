// SPDX-License-Identifier: Apache-2.0
#include "trace/rest.h"

#include <new>
#include <utility>

#include "base/mutex.h"
#include "trace/requests.h"

namespace pitot::trace {

alignas(64) constinit std::atomic<bool> g_is_anyone_resting{false};

namespace {

constinit base::Mutex g_rests_mutex;
constinit Rest* g_rests PITOT_GUARDED_BY(g_rests_mutex) = nullptr;

}  // namespace

Rest::Rest(void (*wake)(void* context), void* context) noexcept : wake_(wake), context_(context) {
  const base::MutexLock lock(&g_rests_mutex);
  next_ = std::exchange(g_rests, this);
}

Rest::~Rest() {
  const base::MutexLock lock(&g_rests_mutex);
  Rest** link = &g_rests;
  while (*link != nullptr && *link != this) link = &(*link)->next_;
  if (*link != nullptr) *link = next_;
}

bool Rest::May(int64_t now_ns) noexcept {
  const Activity before = CountActivity();
  if (std::exchange(begun_, before.begun) != before.begun || before.open != 0) quiet_since_ns_ = now_ns;
  if (now_ns - quiet_since_ns_ < kQuietNs) return false;
  g_is_anyone_resting.store(true);
  const Activity now = CountActivity();
  return now.open == 0 && now.begun == before.begun;
}

void WakeResting() noexcept {
  const base::MutexLock lock(&g_rests_mutex);
  for (const Rest* rest = g_rests; rest != nullptr; rest = rest->next_) rest->wake_(rest->context_);
}

void ForgetRestsAfterFork() noexcept {
  new (&g_rests_mutex) base::Mutex;
  const base::MutexLock lock(&g_rests_mutex);
  g_rests = nullptr;
  g_is_anyone_resting.store(false);
}

}  // namespace pitot::trace
