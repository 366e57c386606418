// SPDX-License-Identifier: Apache-2.0
#include "pitot/interpreter.h"

#include "pitot/c.h"
#include "pitot/stack.h"

namespace pitot::c {
namespace {

// Shorter steps of tasks are not recorded: a request hardly notices that it waited for one.
constexpr uint64_t kSlowStepNs = 1'000'000;

}  // namespace
}  // namespace pitot::c

extern "C" {

using namespace pitot;     // NOLINT: this part only implements the C functions on what stands above
using namespace pitot::c;  // NOLINT

void pitot_step_begin(uint64_t request) { BeginStep(request); }
int32_t pitot_step_end() { return EndStep(kSlowStepNs); }
void pitot_step_record(pitot_name name, uint64_t request) { RecordStep(Name{name}, request); }

void pitot_collection(uint64_t duration_ns, uint32_t generation, uint64_t collected) {
  RecordCollection(duration_ns, generation, collected);
}
void pitot_lock_held(uint64_t ago_ns, uint64_t duration_ns, int64_t tid, pitot_name thread, pitot_name place,
                     uint64_t on_cpu_ns) {
  RecordLockHeld(ago_ns, duration_ns, {tid, Name{thread}, Name{place}, on_cpu_ns});
}
uint64_t pitot_sleep_and_read_cpu(uint32_t sleep_us, const int64_t* tids, uint64_t* cpu_ns, uint32_t count) {
  return SleepAndReadCpu(sleep_us, tids, cpu_ns, tids != nullptr && cpu_ns != nullptr ? count : 0);
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
