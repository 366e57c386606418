// SPDX-License-Identifier: Apache-2.0
//
// What each route usually takes, and the gaps between its tokens, for those who watch late requests (pitot/stack.h).
#ifndef PITOT_LIB_TRACE_LATENESS_H_
#define PITOT_LIB_TRACE_LATENESS_H_

#include <atomic>
#include <cstdint>

#include "trace/requests.h"

namespace pitot::trace {

// Follows a high quantile of latencies. Threads: any; what two teach at once may count once.
class UsualLatency {
 public:
  static constexpr uint32_t kWarmUp = 32;

  void Teach(uint64_t ns) noexcept {
    // A step up is 19 times one down: both are as frequent where 95 % are below.
    constexpr uint64_t kSteps = 256, kUp = 19;
    const uint32_t count = count_.load(std::memory_order_relaxed);
    uint64_t at_ns = ns_.load(std::memory_order_relaxed);
    if (count < kWarmUp) count_.store(count + 1, std::memory_order_relaxed);
    const uint64_t step = at_ns / kSteps + 1;
    at_ns = count == 0 ? ns : ns > at_ns ? at_ns + kUp * step : at_ns - (step < at_ns ? step : at_ns);
    ns_.store(at_ns, std::memory_order_relaxed);
  }
  // From this latency on a request is late.
  uint64_t LateNs() const noexcept {
    constexpr uint64_t kUnknownNs = 1'000'000'000;
    const uint64_t ns = ns_.load(std::memory_order_relaxed);
    return count_.load(std::memory_order_relaxed) < kWarmUp ? kUnknownNs : ns + ns / 2;
  }
  void Forget() noexcept { count_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> ns_{0};
  std::atomic<uint32_t> count_{0};
};

extern std::atomic<uint32_t> g_late_watchers;
void TeachLatency(const RequestView& request) noexcept;
void TeachTokenGap(uint32_t route_index, uint64_t ns) noexcept;

// A request finished. Cost: a load and a branch if nobody watches.
inline void NoteLatency(const RequestView& request) noexcept {
  if (__builtin_expect(g_late_watchers.load(std::memory_order_relaxed) != 0, 0)) TeachLatency(request);
}
// A request put out a token that is not its first one. Cost: as above.
inline void NoteTokenGap(uint32_t route_index, uint64_t ns) noexcept {
  if (__builtin_expect(g_late_watchers.load(std::memory_order_relaxed) != 0, 0)) TeachTokenGap(route_index, ns);
}

// Whether an open request is late, or its next token is.
bool IsLateNow(const OpenRequest& request, uint64_t now_ticks) noexcept;
// In the child of a fork: nobody watches yet.
void ForgetLatenessAfterFork() noexcept;

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_LATENESS_H_
