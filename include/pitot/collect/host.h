// SPDX-License-Identifier: Apache-2.0
//
// Collect: what stops a thread when it is not slow code: want of a CPU, a CPU quota, page faults, pressure on CPU, I/O
// and memory, low CPU clocks. What is recorded, when, and what it costs: docs/guide/host.md.
//
//   recorder.Add(pitot::MakeHostCollector());
#ifndef PITOT_COLLECT_HOST_H_
#define PITOT_COLLECT_HOST_H_

#include <stdint.h>

#include <memory>

#include "pitot/export.h"
#include "pitot/extend/collector.h"

PITOT_NAMESPACE_BEGIN

struct HostOptions {
  // How often the process and the machine are looked at, Hz, 1 to 50: quota, pressure, switches, faults; CPU clocks
  // once a second.
  uint32_t rate_hz = 10;
  // How often threads that are at work are looked at from outside, Hz, 1 to 200: on-CPU time and run-queue delay.
  uint32_t thread_rate_hz = 50;
  // Of how many threads at a time the run-queue delay is read, 1 to 1,024: each takes a file descriptor.
  uint32_t most_threads = 64;
  // Host memory for samples, bytes, 64 KiB to 1 GiB, on top of Options::memory_budget_bytes: half holds the newest, 24
  // bytes each, and half the copy for an incident. A thread at work gives 100 samples a second at 50 Hz.
  uint64_t memory_bytes = 4ull << 20;
};

// Samples on a thread of its own, "pitot-host", from Recorder::Add to Recorder::Stop; and has the host's threads record
// their own on-CPU time, switches and faults where they begin or end a request or batch, once a millisecond at most.
// Needs no privilege. What the system does not say is left out: attribute "host.not_recorded" says what and why. Null
// if there is no memory. Threads: any. One collector in a process at a time. Errors: of Recorder::Add kInvalidArgument,
// which names the option, kAlreadyRunning, and kResourceExhausted: no memory
//   or thread. That the system says nothing is none.
// Lifetime: the recorder's.
// Cost: on the host's threads three system calls and a record of 48 bytes at such an edge, 1.4 us once a millisecond
//   at most; scopes nothing. On its own thread 1.3 us for each thread at work, 50 times a second, and 11 us for the
//   process and the machine, ten times (docs/guide/host.md). For an incident 50 us for each thread at work, on Pitot's
//   watcher. Recorder::Stop waits for a round under way.
PITOT_EXPORT std::unique_ptr<Collector> MakeHostCollector(const HostOptions& options = {}) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_COLLECT_HOST_H_
