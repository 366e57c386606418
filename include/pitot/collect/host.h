// SPDX-License-Identifier: Apache-2.0
//
// Collect: finds what stops a thread other than slow code: lack of a CPU, a CPU quota, page faults, pressure on CPU,
// I/O and memory, low CPU clocks. docs/guide/host.md says what is recorded, when, and at what cost.
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
  // How often to sample the process and the machine, Hz, 1 to 50: quota, pressure, switches, faults. CPU clocks are
  // sampled once a second.
  uint32_t rate_hz = 10;
  // How often to sample threads at work from outside, Hz, 1 to 200: on-CPU time and run-queue delay.
  uint32_t thread_rate_hz = 50;
  // How many threads at a time have their run-queue delay read, 1 to 1,024. Each takes a file descriptor.
  uint32_t most_threads = 64;
  // Host memory for samples, bytes, 64 KiB to 1 GiB, part of Options::memory_budget_bytes. Half holds the newest, 24
  // bytes each; half holds the copy for an incident. A thread at work gives 100 samples a second at 50 Hz.
  uint64_t memory_bytes = 4ull << 20;
};

// Samples on its own thread, "pitot-host", from Recorder::Add to Recorder::Stop. It also has the host's threads record
// their own on-CPU time, switches and faults where they begin or end a request or batch, once a millisecond at most.
// Needs no privilege. Data the system does not provide is left out; attribute "host.not_recorded" says what and why.
// Null if there is no memory.
// Threads: any. One collector in a process at a time.
// Errors: from Recorder::Add kInvalidArgument, which names the option, kAlreadyRunning, and kResourceExhausted: no
//   memory or thread. A system that provides no data is not an error.
// Lifetime: the recorder's.
// While the host works at nothing, it looks every two seconds.
// Cost: on the host's threads three system calls and a record of 48 bytes at such an edge, once a millisecond at most;
//   scopes cost nothing. The collector's own thread reads each thread at work `thread_rate_hz` times a second, and the
//   process and the machine `rate_hz` times. For an incident, Pitot's watcher reads each thread at work once more.
//   docs/lab/collectors.md has numbers. Recorder::Stop waits for the current round.
PITOT_EXPORT std::unique_ptr<Collector> MakeHostCollector(const HostOptions& options = {}) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_COLLECT_HOST_H_
