// SPDX-License-Identifier: Apache-2.0
#include "session/calibrate.h"

#include <time.h>

#include <memory>
#include <vector>

#include "base/quantile.h"
#include "trace/internal_sites.h"
#include "trace/rings.h"

namespace pitot::session {

trace::ClockReading CalibrateTicks(bool slow_clock) {
  if (slow_clock) {
    __atomic_store_n(&detail::g_ticks_per_ns_q32, uint64_t{1} << 32, __ATOMIC_RELAXED);
    return trace::ReadClocks(true);
  }
  const trace::ClockReading before = trace::ReadClocks(false);
  const timespec nap{0, 1'000'000};
  nanosleep(&nap, nullptr);
  trace::ClockReading after = trace::ReadClocks(false);
  const double ticks_per_ns = trace::ClockMap{before, after}.TicksPerNs();
  __atomic_store_n(&detail::g_ticks_per_ns_q32, static_cast<uint64_t>(ticks_per_ns * 4294967296.0), __ATOMIC_RELAXED);
  after.width_ns = static_cast<int64_t>(static_cast<double>(after.width_ns) / ticks_per_ns);
  return before;
}

double TicksPerNs() noexcept {
  return static_cast<double>(__atomic_load_n(&detail::g_ticks_per_ns_q32, __ATOMIC_RELAXED)) / 4294967296.0;
}

double CalibrateScopeCost(bool slow_clock) {
  constexpr int kRuns = 9, kScopes = 500;
  constexpr uint64_t kWords = 4096;
  const auto ring = std::make_unique<detail::Ring>();
  const auto words = std::make_unique<uint64_t[]>(kWords);
  ring->words = words.get();
  ring->mask = kWords - 1;
  double runs[kRuns];
  for (double& run : runs) {
    const int64_t begin = trace::MonotonicNs();
    for (int i = 0; i < kScopes; ++i) {
      const uint64_t scope_begin = trace::NowTicks(slow_clock);
      const uint32_t depth = ring->depth;
      detail::Push(ring.get(), &trace::kContextSite, scope_begin);
      const uint64_t scope_end = trace::NowTicks(slow_clock);
      detail::Append(ring.get(), &trace::kContextSite, scope_begin, scope_end, detail::ArgList<>{});
      detail::Pop(ring.get(), depth);
    }
    run = static_cast<double>(trace::MonotonicNs() - begin) / kScopes;
  }
  return base::QuantileOf(runs, runs + kRuns, 0.5);
}

}  // namespace pitot::session
