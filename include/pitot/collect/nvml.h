// SPDX-License-Identifier: Apache-2.0
//
// Collect: the state of NVIDIA GPUs over time, through NVML: clocks, power, throttling, memory, utilisation, errors.
// What is recorded, how often, and what it costs: docs/guide/nvml.md.
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
  // The file of NVML; null: libnvidia-ml.so.1, as the loader finds it. It comes with the driver and is opened by Start;
  // nothing of NVIDIA's is needed to build or to link. Copied.
  const char* library = nullptr;
  // How often every GPU is asked, Hz, 1 to 50. What takes the driver more than 250 us is asked once a second.
  uint32_t rate_hz = 10;
  // Host memory for samples, bytes, 64 KiB to 1 GiB, on top of Options::memory_budget_bytes: half holds the newest
  // samples, 24 bytes each, and half the copy for an incident. A busy GPU gives 100 to 200 samples a second at 10 Hz.
  // Tables take 4 KB a GPU and 48 KB in all beside it.
  uint64_t memory_bytes = 2ull << 20;
};

// Samples on a thread of its own, "pitot-nvml", from Recorder::Add to Recorder::Stop. A counter that a GPU, driver or
// permission does not give is missing from incidents, whose attribute "nvml.<index>.<source>" says why. Null if there
// is no memory.
// Threads: any, but not while a library is being loaded: the thread waits for the loader, and Recorder::Add for it.
// Errors: Recorder::Add says why GPUs are not sampled and what to do, and everything else is recorded.
//   kInvalidArgument names the option. kNotFound: there is no NVML, or no GPU. kUnavailable: the library is not NVML or
//   too old, the driver refuses, or it has not answered for 10 s. kResourceExhausted: no memory or thread.
//   kAlreadyRunning: this collector was started before.
// Lifetime: the recorder's. A thread that hangs in the driver when the recorder stops is left behind with its memory.
// Cost: Recorder::Add waits until NVML has answered, 10 s at most, and Recorder::Stop for the round under way, 2 s at
//   most. Then about 1 ms a GPU and round on that thread (H100, H200; up to 15 ms were seen), none on others that
//   could be measured; each incident says "nvml.round_us". Every GPU that NVML sees is asked, in each process that
//   records.
PITOT_EXPORT std::unique_ptr<Collector> MakeNvmlCollector(const NvmlOptions& options = {}) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_COLLECT_NVML_H_
