// SPDX-License-Identifier: Apache-2.0
//
// Evidence of an interpreter and of its event loops, for bindings of languages that have one. The Python package uses
// all of it (docs/guide/python.md). Programs in C++ with an event loop of their own can use the steps:
//
//   pitot::BeginStep(task.request_id);
//   task.Resume();
//   if (pitot::EndStep(1'000'000)) pitot::RecordStep(pitot::Intern(task.name), task.request_id);
#ifndef PITOT_INTERPRETER_H_
#define PITOT_INTERPRETER_H_

#include <stdint.h>

#include "pitot/export.h"
#include "pitot/trace.h"

PITOT_NAMESPACE_BEGIN

// A step is a part of a task that an event loop runs on the calling thread without interruption. BeginStep makes
// `request` (an id; 0: none) the thread's context; after the step it is what it was before. Steps do not nest.
// Cost: a clock read, and a record if the context changes.
PITOT_EXPORT void BeginStep(uint64_t request) noexcept;
// Ends the step. A scope or wait that it left open belongs to a suspended task: it is removed, never recorded, and
// counted in Stats::scopes_closed_elsewhere. Closing it in a later step does nothing. Returns true if the step took at
// least `slow_ns`; steps that the loop runs right after it, for other requests, are then marked as having waited for
// it. Cost: a clock read.
PITOT_EXPORT bool EndStep(uint64_t slow_ns) noexcept;
// Records the thread's last step under the name of its task or callback. Verdicts of requests that waited for the
// loop meanwhile name it.
PITOT_EXPORT void RecordStep(Name name, uint64_t request) noexcept;

// Returns whether a thread runs a step that began `ns` ago or earlier.
// Threads: any; not on the hot path.
// Cost: a lock, and a load for each recorded thread.
PITOT_EXPORT bool IsStepRunning(uint64_t ns) noexcept;

// Records a garbage collection by the calling thread that took `duration_ns`, until `ago_ns` before now. Verdicts count
// on the interpreter having run nothing else meanwhile.
PITOT_EXPORT void RecordCollection(uint64_t ago_ns, uint64_t duration_ns, uint32_t generation,
                                   uint64_t collected) noexcept;

// A thread that had the interpreter's lock while another wanted it.
struct LockHolder {
  int64_t tid = 0;         // the operating system's; 0: unknown
  Name thread = {0};       // its name
  Name place = {0};        // where it was: "app.py:88 render"
  uint64_t on_cpu_ns = 0;  // how much of that time it ran
};
// Records that the calling thread waited for the interpreter's lock for `duration_ns`, until `ago_ns` before now.
// Verdicts assume that every other thread of the interpreter waited as well, except the holder.
PITOT_EXPORT void RecordLockHeld(uint64_t ago_ns, uint64_t duration_ns, const LockHolder& holder) noexcept;

// Records that an interpreter without a lock stopped all of its threads for `duration_ns`, until `ago_ns` before now.
// The calling thread waited for that, and `ran` is the only thread known to have run meanwhile, without a place.
PITOT_EXPORT void RecordThreadsStopped(uint64_t ago_ns, uint64_t duration_ns, const LockHolder& ran) noexcept;

// Sleeps for `sleep_us`, then fills in the CPU time of `count` threads (0: no such thread). Returns CLOCK_MONOTONIC in
// ns after that, for a watcher that asks for the interpreter's lock next.
// Cost: after the sleep, a system call for each thread.
PITOT_EXPORT uint64_t SleepAndReadCpu(uint32_t sleep_us, const int64_t* tids, uint64_t* cpu_ns,
                                      uint32_t count) noexcept;

// Names the recorded thread with that id of the operating system, unless it has named itself. False: it recorded
// nothing yet.
// Threads: any.
// Cost: a lock.
PITOT_EXPORT bool NameThread(int64_t tid, const char* name) noexcept;
// Returns how many threads have begun to record in this process. After a change, threads can be named again.
// Threads: any.
// Cost: a lock.
PITOT_EXPORT uint32_t ThreadsRecorded() noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_INTERPRETER_H_
