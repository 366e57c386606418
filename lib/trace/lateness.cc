// SPDX-License-Identifier: Apache-2.0
#include "trace/lateness.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <vector>

#include "pitot/stack.h"

namespace pitot::trace {

constinit std::atomic<uint32_t> g_late_watchers{0};

namespace {

constinit UsualLatency g_usual[kMaxRoutes];
constinit UsualLatency g_usual_gaps[kMaxRoutes];  // between tokens
constexpr uint64_t kLeastTokenNs = 10'000'000;    // shorter gaps are never late: watchers look every 10 ms

// Late requests, and the threads that began them.
struct LateRequests {
  static constexpr uint32_t kMost = 64;
  uint64_t now = 0;
  uint32_t count = 0;
  uint64_t ids[kMost];
  uint32_t begin_threads[kMost];

  bool Has(const ThreadRing& ring) const {
    const uint64_t request = __atomic_load_n(&ring.request, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < count; ++i) {
      if (ids[i] == request || begin_threads[i] == ring.number) return true;
    }
    return false;
  }
};

LateRequests FindLateRequests() {
  LateRequests late;
  late.now = detail::Clock(__atomic_load_n(&detail::g_gate, __ATOMIC_RELAXED));
  VisitOpenRequests(
      [](void* context, const OpenRequest& request) {
        auto* const found = static_cast<LateRequests*>(context);
        if (request.is_ending || found->count == LateRequests::kMost || !IsLateNow(request, found->now)) return;
        found->ids[found->count] = request.view.id;
        found->begin_threads[found->count++] = request.begin_thread;
      },
      &late);
  return late;
}

bool IsAtWork(const ThreadRing& ring) {
  return __atomic_load_n(&ring.request, __ATOMIC_ACQUIRE) != 0 ||
         __atomic_load_n(&ring.open[0].begin, __ATOMIC_ACQUIRE) != 0;
}

}  // namespace

void TeachLatency(const RequestView& request) noexcept {
  if (request.outcome == Outcome::kOk) g_usual[request.route_index % kMaxRoutes].Teach(request.latency_ns);
}

void TeachTokenGap(uint32_t route_index, uint64_t ns) noexcept { g_usual_gaps[route_index % kMaxRoutes].Teach(ns); }

bool IsLateNow(const OpenRequest& request, uint64_t now_ticks) noexcept {
  const uint32_t route = request.view.route_index % kMaxRoutes;
  if (request.late_ticks <= now_ticks || request.view.latency_ns >= g_usual[route].LateNs()) return true;
  return request.token_gap_ns >= std::max(kLeastTokenNs, g_usual_gaps[route].LateNs());
}

void ForgetLatenessAfterFork() noexcept { g_late_watchers.store(0); }

}  // namespace pitot::trace

PITOT_NAMESPACE_BEGIN

using namespace trace;  // NOLINT: this part only implements the public functions on what stands above

void WatchLateRequests(bool is_on) noexcept {
  if (!is_on) {
    uint32_t watchers = g_late_watchers.load();
    while (watchers != 0 && !g_late_watchers.compare_exchange_weak(watchers, watchers - 1)) {}
    return;
  }
  // What was learned before may be of another load.
  if (g_late_watchers.fetch_add(1) == 0) {
    for (UsualLatency& usual : g_usual) usual.Forget();
    for (UsualLatency& usual : g_usual_gaps) usual.Forget();
  }
}

uint32_t FindLateThreads(int64_t* tids, uint32_t most) noexcept {
  if (__atomic_load_n(&detail::g_gate, __ATOMIC_RELAXED) == 0 || CountRequests().open == 0) return 0;
  const LateRequests late = FindLateRequests();
  if (late.count == 0) return 0;
  try {
    const auto caller = static_cast<int64_t>(syscall(SYS_gettid));
    std::vector<int64_t> ranks[3];
    for (const ThreadRing* ring : PinnedRings()) {
      if (ring->state != RingState::kLive || ring->tid == caller) continue;
      const bool is_in_batch = __atomic_load_n(&ring->batch, __ATOMIC_ACQUIRE) != 0;
      const int rank = late.Has(*ring) ? 0 : is_in_batch ? 1 : IsAtWork(*ring) ? 2 : -1;
      if (rank >= 0) ranks[rank].push_back(ring->tid);
    }
    uint32_t found = 0;
    for (const std::vector<int64_t>& rank : ranks) {
      for (const int64_t tid : rank) {
        if (found < most) tids[found] = tid;
        ++found;
      }
    }
    return found;
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

PITOT_NAMESPACE_END
