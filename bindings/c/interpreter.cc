// SPDX-License-Identifier: Apache-2.0
#include "pitot/interpreter.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <utility>

#include "pitot/c.h"
#include "pitot/stack.h"

namespace pitot::c {
namespace {

// Shorter steps of tasks are not recorded: a request hardly notices that it waited for one.
constexpr uint64_t kSlowStepNs = 1'000'000;

// Shorter waits for the interpreter's lock are not told.
constexpr uint64_t kLeastWaitNs = 2'000'000;
// Younger steps most likely end soon.
constexpr uint64_t kRunningStepNs = 5'000'000;
constexpr uint64_t kRefreshNs = 100'000'000;
constexpr uint32_t kMostRead = 32;
// A thread of Python that waits for the lock wakes up after 5 ms each time.
constexpr uint64_t kWaiterWakesNs = 6'000'000;

// Shorter collections are not told.
constexpr uint64_t kLeastCollectionNs = 1'000'000;

pitot_collection_function g_on_collection = nullptr;
thread_local uint64_t t_collection_begin_ns = 0;  // 0: none began

uint64_t NowNs() { return SleepAndReadCpu(0, nullptr, nullptr, 0); }

// A number that changes when another set of threads lives, or one more records; never 0.
uint64_t ThreadsInShort() {
  uint64_t sum = ThreadsRecorded();
  DIR* const tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return sum | uint64_t{1} << 63;
  while (const dirent* task = readdir(tasks)) {
    const uint64_t tid = std::strtoull(task->d_name, nullptr, 10);
    sum += (tid ^ tid >> 7) * 0x9e3779b97f4a7c15 >> 1;  // in any order
  }
  closedir(tasks);
  return sum | uint64_t{1} << 63;
}

// How long the calling thread has waited for a CPU, ever; 0 if the system does not say.
uint64_t WaitedForCpuNs() {
  char text[128] = "";
  const int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t size = read(file, text, sizeof text - 1);
  close(file);
  const char* const second = size > 0 ? std::strchr(text, ' ') : nullptr;
  return second != nullptr ? std::strtoull(second, nullptr, 10) : 0;
}

// Reads the CPU time of all threads. Those that ran most since the last refresh come first.
void Refresh(pitot_interpreter_watch* watch) {
  SleepAndReadCpu(0, watch->tids, watch->cpu_ns, watch->count);
  uint64_t *const cpu = watch->cpu_ns, *const listed = watch->listed_ns;
  const auto ran = [&](uint32_t at) { return cpu[at] - std::min(cpu[at], listed[at]); };
  for (uint32_t front = 0; front < std::min(watch->count, kMostRead); ++front) {
    uint32_t most = front;
    for (uint32_t at = front + 1; at < watch->count; ++at) most = ran(at) > ran(most) ? at : most;
    std::swap(watch->tids[front], watch->tids[most]);
    std::swap(cpu[front], cpu[most]);
    std::swap(listed[front], listed[most]);
  }
  std::copy_n(cpu, watch->count, listed);
}

bool LooksFor(const pitot_interpreter_watch& watch, pitot_watch_event event) { return (watch.looks_for & event) != 0; }

// What there is to do, apart from the lock.
pitot_watch_event LookAround(pitot_interpreter_watch* watch, uint64_t until_ns) {
  pitot_watch_event found = 0;
  const uint64_t now = NowNs();
  if (now >= watch->next_refresh_ns) {
    Refresh(watch);
    watch->next_refresh_ns = now + kRefreshNs;
    const uint64_t threads = ThreadsInShort();
    if (std::exchange(watch->threads_known, threads) != threads) found |= PITOT_WATCH_THREADS;
  }
  if (LooksFor(*watch, PITOT_WATCH_LATE)) {
    const uint32_t is_late = FindLateThreads(nullptr, 0) != 0;
    if ((std::exchange(watch->is_late, is_late) | is_late) != 0) found |= PITOT_WATCH_LATE;
  }
  if (LooksFor(*watch, PITOT_WATCH_STEP) && IsStepRunning(kRunningStepNs)) found |= PITOT_WATCH_STEP;
  if (now >= until_ns || __atomic_load_n(&watch->is_over, __ATOMIC_RELAXED) != 0) found |= PITOT_WATCH_TIME;
  return found;
}

// Whether one thread alone ran since the last look, and for a fifth of that time. Then no other waits for the lock: it
// would have run on its way there, and whenever its wait timed out. To ask for the lock stops its holder for two
// switches of threads.
bool IsOneAlone(pitot_interpreter_watch* watch) {
  if (watch->count > kMostRead) return false;
  uint64_t before[kMostRead];
  std::copy_n(watch->cpu_ns, watch->count, before);
  const uint64_t last_ns = watch->asked_ns;
  watch->asked_ns = SleepAndReadCpu(0, watch->tids, watch->cpu_ns, watch->count);
  uint32_t threads = 0;
  uint64_t ran_ns = 0;
  for (uint32_t at = 0; at < watch->count; ++at) {
    const uint64_t ns = watch->cpu_ns[at] - std::min(watch->cpu_ns[at], before[at]);
    threads += ns != 0 ? 1 : 0;
    ran_ns += ns;
  }
  const uint64_t since_ns = watch->asked_ns - last_ns;
  return threads == 1 && last_ns != 0 && since_ns >= kWaiterWakesNs && 5 * ran_ns >= since_ns;
}

// Asks for the interpreter, and returns whether that took long.
pitot_watch_event Take(pitot_interpreter_watch* watch, void* state) {
  const bool may_stop = LooksFor(*watch, PITOT_WATCH_STOP);
  const uint64_t no_cpu_ns = may_stop ? WaitedForCpuNs() : 0;
  watch->asked_ns = SleepAndReadCpu(0, watch->tids, watch->cpu_ns, std::min(watch->count, kMostRead));
  watch->take(state);
  watch->got_ns = NowNs();
  if (watch->got_ns - watch->asked_ns < kLeastWaitNs) return 0;
  if (may_stop) watch->got_ns -= std::min(WaitedForCpuNs() - no_cpu_ns, watch->got_ns - watch->asked_ns);
  const bool is_long = watch->got_ns - watch->asked_ns >= kLeastWaitNs;
  return is_long ? watch->looks_for & (PITOT_WATCH_LOCK | PITOT_WATCH_STOP) : 0;
}

}  // namespace
}  // namespace pitot::c

extern "C" {

using namespace pitot;     // NOLINT: this part only implements the C functions on what stands above
using namespace pitot::c;  // NOLINT

void pitot_step_begin(uint64_t request) { BeginStep(request); }
int32_t pitot_step_end() { return EndStep(kSlowStepNs); }
void pitot_step_record(pitot_name name, uint64_t request) { RecordStep(Name{name}, request); }

void pitot_collection(uint64_t ago_ns, uint64_t duration_ns, uint32_t generation, uint64_t collected) {
  RecordCollection(ago_ns, duration_ns, generation, collected);
}
void pitot_on_collection(pitot_collection_function function) {
  __atomic_store_n(&g_on_collection, function, __ATOMIC_RELEASE);
}
void pitot_see_collection(const wchar_t* phase, void* info) {
  const uint64_t now_ns = NowNs();
  if (phase != nullptr && std::wcscmp(phase, L"start") == 0) {
    t_collection_begin_ns = now_ns;
    return;
  }
  const uint64_t begin_ns = std::exchange(t_collection_begin_ns, 0);
  if (begin_ns == 0 || now_ns - begin_ns < kLeastCollectionNs) return;
  const pitot_collection_function function = __atomic_load_n(&g_on_collection, __ATOMIC_ACQUIRE);
  if (function != nullptr) function(now_ns, now_ns - begin_ns, info);
}
void pitot_lock_held(uint64_t ago_ns, uint64_t duration_ns, int64_t tid, pitot_name thread, pitot_name place,
                     uint64_t on_cpu_ns) {
  RecordLockHeld(ago_ns, duration_ns, {tid, Name{thread}, Name{place}, on_cpu_ns});
}
void pitot_threads_stopped(uint64_t ago_ns, uint64_t duration_ns, int64_t tid, pitot_name thread, uint64_t on_cpu_ns) {
  RecordThreadsStopped(ago_ns, duration_ns, {tid, Name{thread}, Intern(""), on_cpu_ns});
}
uint64_t pitot_sleep_and_read_cpu(uint32_t sleep_us, const int64_t* tids, uint64_t* cpu_ns, uint32_t count) {
  return SleepAndReadCpu(sleep_us, tids, cpu_ns, tids != nullptr && cpu_ns != nullptr ? count : 0);
}
// Not noexcept, and nothing to clean up: a thread that takes the lock of an interpreter that ends is unwound.
pitot_watch_event pitot_watch_interpreter(pitot_interpreter_watch* watch) {
  const uint64_t until_ns = NowNs() + watch->most_us * uint64_t{1000};
  void* state = watch->let_go();
  for (;;) {
    SleepAndReadCpu(watch->pause_us, nullptr, nullptr, 0);
    const bool asks = LooksFor(*watch, PITOT_WATCH_STOP) || (LooksFor(*watch, PITOT_WATCH_LOCK) && !IsOneAlone(watch));
    pitot_watch_event found = LookAround(watch, until_ns);
    if (!asks && found == 0) continue;
    found |= Take(watch, state);
    if (found != 0) return found;
    state = watch->let_go();
  }
}
void pitot_watch_late_requests(int32_t is_on) { WatchLateRequests(is_on != 0); }
uint32_t pitot_find_late_threads(int64_t* tids, uint32_t most) {
  return FindLateThreads(tids, tids != nullptr ? most : 0);
}
pitot_name pitot_system_call_of(int64_t tid) { return SystemCallOf(tid).index; }
void pitot_record_stack(int64_t tid, pitot_name call, uint32_t own, const pitot_name* frames, uint32_t count,
                        uint32_t missed) {
  StackSample sample;
  sample.tid = tid;
  sample.call = Name{call};
  sample.own = own;
  sample.missed = missed;
  for (uint32_t i = 0; i < StackSample::kFrames; ++i)
    sample.frames[i] = frames != nullptr && i < count ? Name{frames[i]} : Intern("");
  RecordStack(sample);
}
int32_t pitot_name_thread(int64_t tid, const char* name) { return NameThread(tid, name); }

}  // extern "C"
