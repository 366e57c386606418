// SPDX-License-Identifier: Apache-2.0
//
// Collect: samples the state of NVIDIA GPUs through NVML: clocks, power, throttling, memory, utilisation, errors.
// docs/guide/nvml.md says what is recorded, how often, and at what cost.
//
//   recorder.Add(pitot::MakeNvmlCollector());
#ifndef PITOT_COLLECT_NVML_H_
#define PITOT_COLLECT_NVML_H_

#include <stdint.h>

#include <memory>

#include "pitot/export.h"
#include "pitot/extend/collector.h"

PITOT_NAMESPACE_BEGIN

struct NvmlOptions {
  // The file of NVML; null: libnvidia-ml.so.1, as the loader finds it. It comes with the driver, and Start opens it;
  // building and linking need nothing from NVIDIA. The string is copied.
  const char* library = nullptr;
  // How often to sample every GPU, Hz, 1 to 50. Queries that take the driver more than 250 us are made once a second.
  // After a second without an open request or batch, every 2 s.
  uint32_t rate_hz = 10;
  // Host memory for samples, bytes, 64 KiB to 1 GiB, part of Options::memory_budget_bytes. Half holds the newest, 24
  // bytes each; half holds the copy for an incident. A busy GPU gives 100 to 200 samples a second at 10 Hz. Tables take
  // another 4 KB per GPU and 48 KB in all.
  uint64_t memory_bytes = 2ull << 20;
};

// Samples on its own thread, "pitot-nvml", from Recorder::Add to Recorder::Stop. A counter that GPU, driver or
// permissions do not provide is missing from incidents; their attribute "nvml.<index>.<source>" says why. Null if there
// is no memory.
// Threads: any, but not while a library is being loaded: the thread waits for the loader, and Recorder::Add for the
//   thread.
// Errors: Recorder::Add says why GPUs are not sampled and what to do; everything else is recorded. kInvalidArgument
//   names the option. kNotFound: there is no NVML, driver or GPU, or no file `library`. kUnavailable: the library is
//   not NVML or too old, the driver refuses, or it has not answered for 10 s. kResourceExhausted: no memory or thread.
//   kAlreadyRunning: this process has an NVML collector.
// Lifetime: the recorder's. A thread that hangs in the driver when the recorder stops is left behind with its memory.
// Cost: Recorder::Add waits until NVML has answered, 10 s at most. Recorder::Stop waits for the current round, 2 s at
//   most. A round keeps the collector's thread in the driver for each GPU; each incident gives the time as
//   "nvml.round_us". No measurable cost on other threads (docs/lab/collectors.md). Each recording process asks every
//   GPU that NVML sees.
PITOT_EXPORT std::unique_ptr<Collector> MakeNvmlCollector(const NvmlOptions& options = {}) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_COLLECT_NVML_H_
