// SPDX-License-Identifier: Apache-2.0
//
// Stacks of threads, taken while a request is late, for watchers that can read them: the Python package
// (docs/guide/python.md) and MakeStackCollector use this. A watcher asks now and then which threads to look at, and
// records what it saw:
//
//   int64_t tids[16];
//   const uint32_t found = pitot::FindLateThreads(tids, 16);
//   for (uint32_t i = 0; i < std::min(found, 16u); ++i) pitot::RecordStack(StackOf(tids[i]));
#ifndef PITOT_STACK_H_
#define PITOT_STACK_H_

#include <stdint.h>

#include "pitot/export.h"
#include "pitot/trace.h"

PITOT_NAMESPACE_BEGIN

// Begins or ends watching. While anybody watches, the usual latency and gap between tokens of each route is learned.
// Calls are counted. Threads: any.
// Cost: while on, a few relaxed loads and stores for each finished request, and for each mark of output tokens after a
// request's first; otherwise a load for each of them.
PITOT_EXPORT void WatchLateRequests(bool is_on) noexcept;

// Finds threads at work while a request is late: past its deadline, past a trigger's fixed latency, or open for 1.5
// times what 95 % of its route take. Until 32 requests of its route have finished, it is late after 1 s. The same holds
// for the time since its last output token, which is late after 10 ms at the earliest. Writes the operating system's
// ids of at most `most` threads: those of late requests, then those in batches, then others in a request or scope. The
// calling thread is left out. Returns how many there are, which may be more; 0: no request is late.
// Threads: any; not on the hot path.
// Cost: two loads if no request is open; otherwise a look at each open request, and a lock if one is late.
PITOT_EXPORT uint32_t FindLateThreads(int64_t* tids, uint32_t most) noexcept;

// The system call in which a thread of this process sleeps: "recv", "futex"; "" if it runs, or the system does not say
// (/proc/self/task/<tid>/syscall). A futex with a timeout is a "timed futex": threads that want an interpreter's lock
// wait in one. Never stops the thread.
// Threads: any.
// Cost: three system calls, and a name the first time.
PITOT_EXPORT Name SystemCallOf(int64_t tid) noexcept;

// A stack in short.
struct StackSample {
  static constexpr uint32_t kFrames = 3;
  static constexpr int64_t kOldestNs = 200'000'000;
  int64_t tid = 0;         // the operating system's; 0: no stack, only `missed`
  Name call = {0};         // the system call it is in; Intern("") if it is in none, or that is not known
  uint32_t own = kFrames;  // the first frame outside of libraries, at most 1; kFrames: none
  // Innermost first: "fetch (app.py:88)". Frames of libraries between the first and the own one are left out. Unused
  // ones are Intern("").
  Name frames[kFrames] = {{0}, {0}, {0}};
  uint32_t missed = 0;  // stacks left out since the last record, by a limit or because they could not be read
  // Frames of machine code, "MyCache::Get (libserver.so)". Where an interpreter's stacks are known, these do not count.
  bool is_native = false;
  bool is_on_cpu = false;  // read while the thread ran; otherwise it slept, or that is not known
  int64_t age_ns = 0;      // how long ago it was read, at most kOldestNs
};
// Records a stack that the calling thread has read. Verdicts say where a thread was blocked by it.
PITOT_EXPORT void RecordStack(const StackSample& sample) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_STACK_H_
