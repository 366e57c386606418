// SPDX-License-Identifier: Apache-2.0
#include "pitot/interpreter.h"

#include <time.h>

#include <cstring>

#include "trace/manual.h"
#include "trace/requests.h"
#include "trace/rings.h"

PITOT_NAMESPACE_BEGIN

namespace {

using trace::ThreadRing;

using CollectionArgs = detail::ArgList<uint64_t, uint64_t>;
constexpr Site kCollectionSite{kSiteMagic,
                               SiteKind::kScope,
                               CollectionArgs::kCount,
                               0,
                               __LINE__,
                               CollectionArgs::Types(),
                               "garbage collection",
                               "pitot/interpreter.h",
                               "RecordCollection",
                               "\"\", generation, collected"};
using HeldArgs = detail::ArgList<int64_t, Name, Name, uint64_t>;
constexpr Site kHeldSite{kSiteMagic,
                         SiteKind::kScope,
                         HeldArgs::kCount,
                         0,
                         __LINE__,
                         HeldArgs::Types(),
                         "waited for the interpreter's lock",
                         "pitot/interpreter.h",
                         "RecordLockHeld",
                         "\"\", tid, thread, place, on_cpu_ns"};
constexpr Site kStoppedSite{kSiteMagic,
                            SiteKind::kScope,
                            HeldArgs::kCount,
                            0,
                            __LINE__,
                            HeldArgs::Types(),
                            "the interpreter stopped its threads",
                            "pitot/interpreter.h",
                            "RecordThreadsStopped",
                            "\"\", tid, thread, place, on_cpu_ns"};
using StepArgs = detail::ArgList<Name, uint64_t>;
constexpr Site kStepSite{
    kSiteMagic, SiteKind::kScope,      StepArgs::kCount, kNameIsFirstArg,      __LINE__, StepArgs::Types(),
    "",         "pitot/interpreter.h", "RecordStep",     "\"\", name, request"};

constexpr Site kResumedSite{kSiteMagic, SiteKind::kInstant,    0,           0,     __LINE__, 0,
                            "resumed",  "pitot/interpreter.h", "BeginStep", "\"\""};

// Marks the thread as one with a loop, so that each window shows it.
constexpr Site kLoopSite{kSiteMagic,   SiteKind::kInstant,    0,         0,     __LINE__, 0,
                         "event loop", "pitot/interpreter.h", "EndStep", "\"\""};
constexpr uint64_t kMarkApartNs = 1'000'000'000;

// After a slow step a loop catches up: it runs what was ready meanwhile. It is done once it has waited for new events
// for longer than this, and at the latest after kMostCatchUpNs.
constexpr uint64_t kIdleNs = 2'000'000, kMostCatchUpNs = 50'000'000;

// Whether the step that begins now was ready while a slow one ran.
bool IsCatchingUp(trace::Step* step) {
  if (step->slow_end == 0) return false;
  const bool is_over = step->begin - step->last_end > detail::TicksOf(kIdleNs) ||
                       step->begin - step->slow_end > detail::TicksOf(kMostCatchUpNs);
  if (is_over) step->slow_end = 0;
  return !is_over;
}

uint64_t MonotonicNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// The CPU clock of a thread of this process, as the kernel encodes it: pthread_getcpuclockid needs a pthread_t.
uint64_t CpuNs(int64_t tid) {
  constexpr clockid_t kThreadSchedClock = 6;
  timespec cpu{};
  if (tid <= 0 || tid > INT32_MAX) return 0;
  const auto clock = static_cast<clockid_t>(~static_cast<uint32_t>(tid) << 3) | kThreadSchedClock;
  if (clock_gettime(clock, &cpu) != 0) return 0;
  return static_cast<uint64_t>(cpu.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(cpu.tv_nsec);
}

uint64_t TicksBefore(uint64_t ticks, uint64_t ns) {
  const uint64_t length = detail::TicksOf(ns);
  return length < ticks ? ticks - length : 0;
}

void RecordWait(const Site& site, uint64_t ago_ns, uint64_t duration_ns, const LockHolder& holder) {
  ThreadRing* ring = trace::EnterThread();
  if (ring == nullptr) return;
  HeldArgs args;
  args.Set(holder.tid, holder.thread, holder.place, holder.on_cpu_ns);
  const uint64_t end = TicksBefore(detail::Clock(ring->gate), ago_ns);
  detail::Append(ring, &site, TicksBefore(end, duration_ns), end, args);
}

}  // namespace

void BeginStep(uint64_t request) noexcept {
  ThreadRing* ring = trace::EnterThread();
  if (ring == nullptr) return;
  trace::Step* step = trace::StepOn(ring);
  if (step->begin == 0) step->outer = ring->request;  // otherwise a step has no end: what was before it counts
  step->begin = detail::Clock(ring->gate);
  ring->step_begin.store(step->begin, std::memory_order_relaxed);
  if (step->marked == 0 || step->begin - step->marked > detail::TicksOf(kMarkApartNs)) {
    detail::Append(ring, &kLoopSite, step->begin, step->begin, detail::ArgList<>());
    step->marked = step->begin;
  }
  trace::BeginStepContext(ring, request, step->begin);
  if (IsCatchingUp(step) && request != 0)
    detail::Append(ring, &kResumedSite, step->begin, step->begin, detail::ArgList<>());
  trace::FenceScopes(ring);
}

bool EndStep(uint64_t slow_ns) noexcept {
  ThreadRing* ring = trace::EnterThread();
  trace::Step* step = ring != nullptr ? trace::StepOn(ring) : nullptr;
  if (step == nullptr || step->begin == 0) return false;
  trace::DropScopesOfStep(ring);
  step->last_begin = step->begin;
  step->last_end = detail::Clock(ring->gate);
  step->begin = 0;
  ring->step_begin.store(0, std::memory_order_relaxed);
  trace::EndStepContext(ring, step->last_end);
  const bool is_slow = step->last_end - step->last_begin >= detail::TicksOf(slow_ns);
  if (is_slow) step->slow_end = step->last_end;
  step->may_be_recorded = is_slow;
  return is_slow;
}

void RecordStep(Name name, uint64_t request) noexcept {
  ThreadRing* ring = trace::EnterThread();
  trace::Step* step = ring != nullptr ? trace::StepOn(ring) : nullptr;
  if (step == nullptr || !step->may_be_recorded) return;
  StepArgs args;
  args.Set(name, request);
  detail::Append(ring, &kStepSite, step->last_begin, step->last_end, args);
  step->may_be_recorded = false;
}

bool IsStepRunning(uint64_t ns) noexcept {
  const uint32_t gate = __atomic_load_n(&detail::g_gate, __ATOMIC_RELAXED);
  return gate != 0 && trace::IsAnyStepSince(TicksBefore(detail::Clock(gate), ns));
}

uint32_t ThreadsRecorded() noexcept { return trace::ThreadsAttached(); }

void RecordCollection(uint64_t ago_ns, uint64_t duration_ns, uint32_t generation, uint64_t collected) noexcept {
  ThreadRing* ring = trace::EnterThread();
  if (ring == nullptr) return;
  CollectionArgs args;
  args.Set(uint64_t{generation}, collected);
  const uint64_t end = TicksBefore(detail::Clock(ring->gate), ago_ns);
  detail::Append(ring, &kCollectionSite, TicksBefore(end, duration_ns), end, args);
}

void RecordLockHeld(uint64_t ago_ns, uint64_t duration_ns, const LockHolder& holder) noexcept {
  RecordWait(kHeldSite, ago_ns, duration_ns, holder);
}

void RecordThreadsStopped(uint64_t ago_ns, uint64_t duration_ns, const LockHolder& ran) noexcept {
  RecordWait(kStoppedSite, ago_ns, duration_ns, ran);
}

uint64_t SleepAndReadCpu(uint32_t sleep_us, const int64_t* tids, uint64_t* cpu_ns, uint32_t count) noexcept {
  constexpr uint32_t kUsPerSecond = 1'000'000;
  if (sleep_us != 0) {
    const timespec pause = {sleep_us / kUsPerSecond, static_cast<long>(sleep_us % kUsPerSecond) * 1000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
  }
  for (uint32_t i = 0; i < count; ++i) cpu_ns[i] = CpuNs(tids[i]);
  return MonotonicNs();
}

bool NameThread(int64_t tid, const char* name) noexcept { return trace::NameRing(tid, name != nullptr ? name : ""); }

PITOT_NAMESPACE_END
