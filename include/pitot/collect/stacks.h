// SPDX-License-Identifier: Apache-2.0
//
// Collect: where threads are while a request is late, blocked or at work, by their stacks of machine code.
// docs/guide/stacks.md says what is read, when, and at what cost.
//
//   recorder.Add(pitot::MakeStackCollector());
#ifndef PITOT_COLLECT_STACKS_H_
#define PITOT_COLLECT_STACKS_H_

#include <stdint.h>

#include <memory>

#include "pitot/export.h"
#include "pitot/extend/collector.h"

PITOT_NAMESPACE_BEGIN

// Stacks of running threads need perf_event_open.
enum class RunningThreads : uint8_t {
  kUnlessFiltered = 0,  // not if a seccomp filter is in force: it may end the process at this call
  kAlways = 1,
  kNever = 2,
};

struct StackOptions {
  // Stacks that may be read at once, and again in every 5 s, 1 to 1,024. More are left out and counted.
  uint32_t most_stacks = 64;
  // Threads of one look, 1 to 64. Those of late requests come first.
  uint32_t most_threads = 16;
  // Whether running threads have stacks, too; sleeping ones always do. kAlways: for a seccomp profile that allows it.
  RunningThreads running_threads = RunningThreads::kUnlessFiltered;
};

// Reads stacks on its own thread, "pitot-stacks", from Recorder::Add to Recorder::Stop. It sends no signal and stops no
// thread: it asks the system for the stack pointer of a sleeping thread, and reads the process's own memory. The kernel
// copies the stacks of running threads. What could not be read is counted; the attribute "stacks.not_recorded" says why
// nothing can be. Null if there is no memory.
// Threads: any. One collector in a process at a time.
// Errors: from Recorder::Add kInvalidArgument, which names the option, kAlreadyRunning, and kResourceExhausted: no
//   memory or thread. A system without libdw is not an error.
// Lifetime: the recorder's.
// Cost: a look at the table of requests 100 times a second while one is open, otherwise 20 times. While a request is
//   late 1 % of a CPU, and 50 ms of CPU time at once. Finished requests pay as WatchLateRequests says (pitot/stack.h).
PITOT_EXPORT std::unique_ptr<Collector> MakeStackCollector(const StackOptions& options = {}) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_COLLECT_STACKS_H_
