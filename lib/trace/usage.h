// SPDX-License-Identifier: Apache-2.0
//
// The operating system's counters of a thread. The thread itself records them when its context changes: at the begin
// and end of requests, adoptions and batches (collect/host). Scopes never read them.
#ifndef PITOT_LIB_TRACE_USAGE_H_
#define PITOT_LIB_TRACE_USAGE_H_

#include <atomic>
#include <cstdint>

#include "trace/rings.h"

namespace pitot::trace {

// Counters of the calling thread since it began. Voluntary switches: it went to sleep; involuntary: it was taken off
// its CPU. Minor faults are for memory that is present; major faults wait for a disk.
struct Usage {
  uint64_t cpu_ns = 0;
  uint32_t voluntary_switches = 0, involuntary_switches = 0;
  uint32_t minor_faults = 0, major_faults = 0;
  uint64_t runqueue_ns = kUnknown;  // waited for a CPU
  static constexpr uint64_t kUnknown = ~uint64_t{0};
};
// `schedstat` is the thread's open file of that name; -1: none. False if the system has no data.
using UsageReader = bool (*)(int schedstat, Usage*) noexcept;

// The shortest time between two records of a thread's usage, and the least as a multiple of what reading took: at most
// 0.5 % of its time. A reading of more than 0.1 ms counts as one of 0.1 ms, since the thread most likely lost its CPU.
inline constexpr uint64_t kUsageApartNs = 1'000'000, kUsageShare = 200;

// Has threads record the results of `read` from now on; null: no more. Threads: any.
void SetUsageReader(UsageReader read) noexcept;

// Gives the thread of a pinned ring its file to read, or takes it away (-1). True once the thread no longer reads the
// former file, which may then be closed. False if the thread has not returned from reading it within `patience_ms`.
bool SetSchedstat(ThreadRing* ring, int file, uint32_t patience_ms = 1000) noexcept;

extern std::atomic<UsageReader> g_read_usage;
void RecordUsage(ThreadRing* ring, UsageReader read, uint64_t now) noexcept;

// The context of the calling thread, which owns the ring, changes. Cost: a load and a branch if there is no reader.
inline void NoteUsage(ThreadRing* ring, uint64_t now) noexcept {
  const UsageReader read = g_read_usage.load(std::memory_order_relaxed);
  if (__builtin_expect(read != nullptr, 0)) RecordUsage(ring, read, now);
}

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_USAGE_H_
