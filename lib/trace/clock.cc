// SPDX-License-Identifier: Apache-2.0
#include "trace/clock.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "pitot/trace.h"
#include "trace/mirror.h"
#include "trace/parent_only.h"
#include "trace/rings.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace pitot::trace {
namespace {

std::atomic<uint64_t (*)()> g_clock_for_testing{nullptr};

int64_t Read(clockid_t id) {
  timespec t;
  clock_gettime(id, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

#if defined(__x86_64__)
// The kernel stops using the counter for its own clock once it has seen it misbehave.
bool KernelTrustsTheCounter() {
  char source[32] = {};
  const int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return true;  // missing in some containers: trust the CPU
  const ssize_t n = read(fd, source, sizeof source - 1);
  close(fd);
  return n > 0 && std::strncmp(source, "tsc", 3) == 0;
}
#endif

}  // namespace

constinit std::array<MirrorSlot, kMirrorUses> g_mirrors{};
constinit std::atomic<bool> g_is_os_clock{true};

bool CycleCounterIsInvariant(const char** why_not) {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0x80000007, &a, &b, &c, &d) == 0 || (d & (1u << 8)) == 0) {
    *why_not = "the CPU does not promise an invariant time stamp counter";
    return false;
  }
  if (!KernelTrustsTheCounter()) {
    *why_not = "the kernel's clock source is not tsc";
    return false;
  }
  *why_not = "";
  return true;
#elif defined(__aarch64__)
  *why_not = "";
  return true;
#else
  *why_not = "this CPU's counter is not known to Pitot";
  return false;
#endif
}

bool NeedsSlowClock(ClockSource source, bool* available) {
  const char* why_not;
  *available = true;
  if (source == ClockSource::kOperatingSystem || g_clock_for_testing.load(std::memory_order_relaxed) != nullptr)
    return true;
  const bool invariant = CycleCounterIsInvariant(&why_not);
  if (source == ClockSource::kCycleCounter) *available = invariant;
  return !invariant;
}

ClockReading ReadClocks(bool slow) {
  ClockReading best;
  if (slow) {
    best.ticks = static_cast<uint64_t>(MonotonicNs());
    // A clock under test replaces CLOCK_MONOTONIC; wall time then begins at its zero.
    const bool testing = g_clock_for_testing.load(std::memory_order_relaxed) != nullptr;
    best.monotonic_ns = static_cast<int64_t>(best.ticks);
    best.realtime_ns = testing ? best.monotonic_ns : Read(CLOCK_REALTIME);
    best.boottime_ns = testing ? best.monotonic_ns : Read(CLOCK_BOOTTIME);
    return best;
  }
  uint64_t best_width = ~uint64_t{0};
  for (int i = 0; i < 50; ++i) {
    const uint64_t before = NowTicks(false);
    const int64_t monotonic = Read(CLOCK_MONOTONIC);
    const uint64_t after = NowTicks(false);
    if (after - before >= best_width) continue;
    best_width = after - before;
    best.ticks = before + best_width / 2;
    best.monotonic_ns = monotonic;
    best.realtime_ns = Read(CLOCK_REALTIME);
    best.boottime_ns = Read(CLOCK_BOOTTIME);
  }
  const uint64_t ticks_per_ns_q32 = __atomic_load_n(&detail::g_ticks_per_ns_q32, __ATOMIC_RELAXED);
  best.width_ns =
      static_cast<int64_t>(static_cast<double>(best_width) * 4294967296.0 /
                           static_cast<double>(ticks_per_ns_q32 != 0 ? ticks_per_ns_q32 : uint64_t{1} << 32));
  return best;
}

int64_t ClockMap::Ns(uint64_t ticks) const {
  const auto ticks_apart = static_cast<int64_t>(last.ticks - first.ticks);
  __extension__ typedef __int128 Wide;
  // From the nearer end: the rounding error grows with the distance to a reading.
  const auto from_last = static_cast<int64_t>(ticks - last.ticks),
             from_first = static_cast<int64_t>(ticks - first.ticks);
  const Wide ns = ticks_apart <= 0 ? Wide{first.monotonic_ns} + from_first
                                   : last.monotonic_ns +
                                         Wide{from_last} * (Wide{last.monotonic_ns} - first.monotonic_ns) / ticks_apart;
  return static_cast<int64_t>(std::clamp<Wide>(ns, INT64_MIN, INT64_MAX));
}

double ClockMap::TicksPerNs() const {
  const auto ns = static_cast<double>(last.monotonic_ns - first.monotonic_ns);
  return ns > 0 ? static_cast<double>(last.ticks - first.ticks) / ns : 1.0;
}

int64_t MonotonicNs() {
  if (auto* testing = g_clock_for_testing.load(std::memory_order_relaxed)) return static_cast<int64_t>(testing());
  return Read(CLOCK_MONOTONIC);
}

void SetClockForTesting(uint64_t (*now_ns)()) { g_clock_for_testing.store(now_ns, std::memory_order_relaxed); }

}  // namespace pitot::trace

PITOT_NAMESPACE_BEGIN
namespace detail {
inline namespace layout_2 {
uint64_t ClockSlow(Edge edge, const Site* site, uint32_t name) noexcept {
  using trace::g_is_os_clock;
  if (trace::IsUntoldChild()) trace::LeaveParentsBox();
  for (const trace::MirrorSlot& slot : trace::g_mirrors) {
    const trace::Mirror* const mirror = slot.mirror.load(std::memory_order_acquire);
    if (mirror == nullptr) continue;
    if (edge == Edge::kEnd || edge == Edge::kNext) mirror->end();
    if ((edge == Edge::kBegin || edge == Edge::kNext) && slot.is_on.load(std::memory_order_relaxed))
      mirror->begin(site, Name{name});
  }
#if defined(__x86_64__) || defined(__aarch64__)
  if (!g_is_os_clock.load(std::memory_order_relaxed)) return Clock(kFastClock);
#endif
  return static_cast<uint64_t>(trace::MonotonicNs());
}
}  // namespace layout_2
}  // namespace detail
PITOT_NAMESPACE_END
