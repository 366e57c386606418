// SPDX-License-Identifier: Apache-2.0
#include "trace/usage.h"

#include <time.h>

#include <algorithm>

#include "trace/internal_sites.h"

namespace pitot::trace {

namespace {

// Normal readings take far less. A thread that lost its CPU during a longer one may have its switches or its delay
// counted only in part.
constexpr uint64_t kPromptNs = 100'000;

}  // namespace

constinit std::atomic<UsageReader> g_read_usage{nullptr};

void SetUsageReader(UsageReader read) noexcept { g_read_usage.store(read, std::memory_order_relaxed); }

void RecordUsage(ThreadRing* ring, UsageReader read, uint64_t now) noexcept {
  if (now < ring->usage_due) return;
  Usage usage;
  bool is_known = false;
  uint64_t at = detail::Clock(ring->gate), took = 0;
  ring->is_reading.store(true);  // before the file is known: SetSchedstat
  // At most one retry. The time on a CPU is right however late it is, because the thread was on none meanwhile.
  for (int tries = 0; tries < 2; ++tries) {
    const uint64_t before = at;
    is_known = read(ring->schedstat.load() - 1, &usage);
    at = detail::Clock(ring->gate);
    took = std::min(at - before, detail::TicksOf(kPromptNs));
    if (at - before <= detail::TicksOf(kPromptNs)) break;
  }
  ring->is_reading.store(false, std::memory_order_release);
  if (!is_known) return;
  ring->usage_due = now + std::max(detail::TicksOf(kUsageApartNs), kUsageShare * took);
  RecordWords words;
  words.Add(usage.cpu_ns);
  words.Add(usage.voluntary_switches | uint64_t{usage.involuntary_switches} << 32);
  words.Add(usage.minor_faults | uint64_t{usage.major_faults} << 32);
  words.Add(usage.runqueue_ns);
  detail::Append(ring, &kUsageSite, at, at, words);
}

bool SetSchedstat(ThreadRing* ring, int file, uint32_t patience_ms) noexcept {
  ring->schedstat.store(file + 1);
  for (uint32_t ms = 0; ring->is_reading.load(); ++ms) {
    if (ms == patience_ms) return false;
    const timespec wait = {0, 1'000'000};
    nanosleep(&wait, nullptr);
  }
  return true;
}

}  // namespace pitot::trace
