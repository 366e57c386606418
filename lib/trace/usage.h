// SPDX-License-Identifier: Apache-2.0
//
// What the operating system says of a thread, recorded by the thread itself where it changes what it works for: at the
// begin and end of requests, adoptions and batches (collect/host). Scopes never read it.
#ifndef PITOT_LIB_TRACE_USAGE_H_
#define PITOT_LIB_TRACE_USAGE_H_

#include <atomic>
#include <cstdint>

#include "trace/rings.h"

namespace pitot::trace {

// Of the calling thread, all since it began. Switches: it went to sleep, or was taken off its CPU. Faults: minor are of
// memory that is there, major wait for a disk.
struct Usage {
  uint64_t cpu_ns = 0;
  uint32_t voluntary_switches = 0, involuntary_switches = 0;
  uint32_t minor_faults = 0, major_faults = 0;
  uint64_t runqueue_ns = kUnknown;  // waited for a CPU
  static constexpr uint64_t kUnknown = ~uint64_t{0};
};
// `schedstat` is the thread's file of that name, open; -1: none. False if the system does not say.
using UsageReader = bool (*)(int schedstat, Usage*) noexcept;

// How long a thread that recorded its usage does not do so again: what reading costs is at most that share of its time.
inline constexpr uint64_t kUsageApartNs = 1'000'000;

// Has threads record what `read` says from now on; null: no more. Threads: any.
void SetUsageReader(UsageReader read) noexcept;

// Gives the thread of a pinned ring its file to read, or takes it away (-1). True if the thread does not read what it
// had any more, so that it may be closed: false if it has not returned from that for so long.
bool SetSchedstat(ThreadRing* ring, int file, uint32_t patience_ms = 1000) noexcept;

extern std::atomic<UsageReader> g_read_usage;
void RecordUsage(ThreadRing* ring, UsageReader read, uint64_t now) noexcept;

// The calling thread, whose ring that is, changes what it works for. Cost: a load and a branch where nobody reads.
inline void NoteUsage(ThreadRing* ring, uint64_t now) noexcept {
  const UsageReader read = g_read_usage.load(std::memory_order_relaxed);
  if (__builtin_expect(read != nullptr, 0)) RecordUsage(ring, read, now);
}

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_USAGE_H_
