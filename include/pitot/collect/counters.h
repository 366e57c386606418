// SPDX-License-Identifier: Apache-2.0
//
// Collect: samples the hardware counters of NVIDIA GPUs all the time: how busy the SMs, the tensor cores, DRAM, L2 and
// PCIe were. docs/guide/counters.md says what is recorded and at what cost.
//
//   recorder.Add(pitot::MakeCounterCollector());
//
// While it samples a GPU, no other profiler can: `ncu` fails there. `pitot counters release` and
// Recorder::Pause("counters") give the GPUs away. A second process of the same user reads the samples of the first,
// from a file in /dev/shm.
#ifndef PITOT_COLLECT_COUNTERS_H_
#define PITOT_COLLECT_COUNTERS_H_

#include <stdint.h>

#include <memory>

#include "pitot/export.h"
#include "pitot/extend/collector.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN

struct CounterOptions {
  // The file of CUPTI (12.6 or later); null: the copy in this process, otherwise the one for its CUDA. Opened once the
  // process uses a GPU, unless it has loaded another copy. The string is copied.
  const char* library = nullptr;
  // The time between samples, us, 100 to 1,000,000. 0: 4,000, and up to 20,000 if the thread would take more than
  // `most_cpu_percent`.
  uint32_t interval_us = 0;
  // The thread's share of one CPU, percent, above 0 to 100. Only for interval_us = 0.
  double most_cpu_percent = 2;
  // Host memory for samples, bytes for each GPU, 64 KiB to 16 MiB; a sample takes 64. Part of
  // Options::memory_budget_bytes.
  uint64_t memory_bytes = 1ull << 20;
};

// Samples on its own thread, "pitot-counters", from the first use of a GPU by this process (its primary context) to
// Recorder::Stop. Never calls CUPTI's activity or callback API, which makes GPU work dearer. A GPU that cannot be
// sampled has the attribute "counters.<ordinal>.not_recorded" with the reason. Where CUPTI may not sample, NVML's GPM
// is asked every 101 ms instead, and "counters.<ordinal>.source" says why. What was not measured has no value: the
// counter "sampled" is 0 there.
// Threads: any.
// Errors: kInvalidArgument names the option. kNotFound: there is no such file, if `library` is a path.
// kResourceExhausted: no memory or thread. kAlreadyRunning: this process has
//   a counter collector. Everything later is in incidents.
// Lifetime: the recorder's. A thread that hangs in CUPTI when the recorder stops is left behind with its memory.
// Cost: none on other threads. The thread takes a burst of CPU time to start, then about `most_cpu_percent`, and more
//   for each incident. While no request and no batch is open, it rests: it leaves the samples to CUPTI, which keeps the
//   newest. Host memory: CUPTI's own libraries, its hardware buffer of 16 MiB a GPU, and a decoder whose
//   size grows with the samples due in half a second, and after a rest for a moment up to 80 MiB. docs/lab/counters.md
//   and docs/lab/gpu_default.md have numbers.
PITOT_EXPORT std::unique_ptr<Collector> MakeCounterCollector(const CounterOptions& options = {}) noexcept;

// Changes CounterOptions::interval_us of this process's collector: from the thread's next round on, half a second later
// at most. 0: 4,000, and longer if that takes more than `most_cpu_percent`. Sampling of each GPU then starts again,
// with a short gap that counts as lost. So a finer interval covers only what follows, for example in an incident's
// hook. A GPU sampled by another process keeps that one's interval, and GPM never samples more often than every 101 ms.
// Threads: any, also in hooks and triggers; lock-free.
// Errors: kInvalidArgument: not 0 or 100 to 1,000,000. kUnavailable: no counter collector runs in this process.
// Lifetime: until the next call, or the collector's end.
// Cost: an atomic store. The thread then takes CPU time by the number of samples, and the decoder memory, too.
PITOT_EXPORT Status SetCounterInterval(uint32_t interval_us) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_COLLECT_COUNTERS_H_
