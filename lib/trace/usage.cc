// SPDX-License-Identifier: Apache-2.0
#include "trace/usage.h"

#include "trace/internal_sites.h"

namespace pitot::trace {

constinit std::atomic<UsageReader> g_read_usage{nullptr};

void SetUsageReader(UsageReader read) noexcept { g_read_usage.store(read, std::memory_order_relaxed); }

void RecordUsage(ThreadRing* ring, UsageReader read, uint64_t now) noexcept {
  if (now - ring->usage_ticks < detail::TicksOf(kUsageApartNs)) return;
  Usage usage;
  if (!read(&usage)) return;
  ring->usage_ticks = now;
  const uint64_t at = detail::Clock(ring->gate);
  RecordWords words;
  words.Add(usage.cpu_ns);
  words.Add(usage.voluntary_switches | uint64_t{usage.involuntary_switches} << 32);
  words.Add(usage.minor_faults | uint64_t{usage.major_faults} << 32);
  detail::Append(ring, &kUsageSite, at, at, words);
}

}  // namespace pitot::trace
