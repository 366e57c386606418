// SPDX-License-Identifier: Apache-2.0
//
// Collect: what NVIDIA GPUs do, through CUPTI: kernels, copies, graphs, and the calls and scopes that caused them.
//
//   recorder.Add(pitot::MakeCuptiCollector());
//
// CUPTI fills buffers of Pitot's on the host's threads, a thread "pitot-cupti" decodes them. docs/guide/gpu.md.
#ifndef PITOT_COLLECT_CUPTI_H_
#define PITOT_COLLECT_CUPTI_H_

#include <stdint.h>

#include <memory>

#include "pitot/export.h"
#include "pitot/extend/collector.h"

PITOT_NAMESPACE_BEGIN

struct CuptiOptions {
  // The file of libcupti; null: the one that this process has loaded, else the one that suits its CUDA. It is opened by
  // Recorder::Add; nothing of CUDA is needed to build or to link. Refused where the process has loaded another file of
  // it: one copy is all that the driver bears. Copied.
  const char* library = nullptr;
  // Host memory for what GPUs did, bytes, 8 MiB to 4 GiB, on top of Options::memory_budget_bytes: all that grows; what
  // does not is 1 MiB beside it. A quarter is what CUPTI writes to: taken once CUPTI is known to be there, and kept
  // until the process ends, because CUPTI may write to it until then; a collector after has them again where its
  // memory_bytes are those of any before, else takes its own. The rest holds the newest records, 48 bytes each, and is
  // taken as they come, but for what names and shapes of kernels, streams, nodes of graphs and buffers that PyTorch's
  // profiler took need: five sixths of all with the first quarter, at most. What has no room is left out, and counted
  // in incidents. While an incident is made and written its rows take half of memory_bytes more, 144 bytes each, and
  // what the recorder's own leave of its arena; the oldest that have no room there are left out and counted ("no room
  // in the incident"): of 64 MiB and an empty arena the newest 233,000 stay. CUPTI itself takes 14 MiB of each
  // device and some 17 MiB of the host (H100, CUPTI 13.0).
  uint64_t memory_bytes = 64ull << 20;
  // Whether CUDA graphs can be recorded as a whole, one record a launch: 0.11 to 0.22 us a node rather than 0.94
  // (1,000 empty ones, H100, docs/lab/gpu.md). CUPTI can do that only where it is switched on before the
  // process initialises CUDA (cuInit, or the runtime's first call), and no more once a graph was made while it was off;
  // and not where PyTorch's profiler is in the process. Without it graphs are recorded node by node wherever kernels
  // are. It is left through records of kernels: after Recorder::Stop or PauseCupti launches are dearer for good, as
  // below, though no kernel was ever recorded.
  bool graph_level = false;
  // The most that recording kernels may leave behind where the depth is kAuto, percent of a launching thread's time.
  // Once kernels were recorded each launch is dearer for the life of the process, also while nothing is recorded:
  // ResNet-50 at batch 1, launched eagerly, takes 12 % longer than in a process without Pitot. Of that 4.5 % come with
  // the first call of CUPTI (attach_at_start), and are not bounded by this. Pitot forecasts it from short looks at the
  // calls and what a launch costs on one H100 (1.4 us, extrapolated to all other machines), and records no kernels at
  // kAuto while the forecast is above this or not known yet; incidents say so. 100: records them from the start,
  // whatever they leave behind. A depth that the host fixes is not asked for.
  double lasting_cost_percent = 1;
  // Whether PyTorch's profiler may have CUPTI, too, where LibTorch is in the process. Then CUPTI's one subscription is
  // left to it: calls are tied through records, and nobody tells of the nodes of CUDA graphs. False is for servers that
  // never profile with it: kernels of CUDA graphs carry the scopes and operators under which they were captured, and
  // its profiles see no GPU for the life of the process. Without LibTorch both are the same.
  bool allow_torch_profiler = true;
  // Whether CUPTI is called by Recorder::Add. Whoever has called it once pays for it as long as the process lives,
  // whatever is recorded: 1.4 to 2.4 % of a CUDA graph of 1.1 ms, 4.5 % of ResNet-50 at batch 1 (H100,
  // docs/lab/gpu.md). False: it is called when kernels are wanted for the first time, by a depth that the host
  // fixes, at kAuto after the first incident, or with lasting_cost_percent = 100. Then graphs that were captured before
  // have no scopes, and what CUPTI refuses is said in incidents (Recorder::ResumeCupti tries again). Beside LibTorch
  // all calls of CUDA are dear from then on, 15 to 18 % of ResNet-50 at batch 1 for good, 53 rather than 16 % while
  // kernels are recorded: there it is never called at kAuto but with lasting_cost_percent = 100. Where there is no
  // driver, a variable of the environment names a tool, the host has fixed a depth above kScopes, with graph_level, and
  // where PyTorch's profiler is not allowed it is called by Add.
  bool attach_at_start = true;
};

// Add it before the first use of CUDA: some of CUPTI does not work later, and beside LibTorch it costs far more. Null
// if there is no memory. Threads: any; neither within a callback of CUPTI's nor while a library is being loaded.
// Errors: Recorder::Add says why no GPU is recorded, and everything else is. kInvalidArgument names the option.
//   kNotFound: there is no libcupti. kAlreadyRunning: there is a collector. kResourceExhausted: no memory or thread.
//   kUnavailable: no GPU, driver or permission, another tool has CUPTI, it does not answer, the parent has it, or the
//   process has another copy than CuptiOptions::library.
//   What goes wrong later, at the first call of CUPTI too, is said in incidents ("cupti", "cupti.not_recorded").
// Lifetime: the recorder's. After Recorder::Stop CUPTI is others' again and another collector may be added; the library
//   stays loaded, and the buffers stay mapped.
// Cost: to begin takes CUPTI milliseconds to seconds, 30 s at most, in Recorder::Add or on Pitot's thread; what it
//   costs from then on says attach_at_start. Beside that a round of the thread every 20 ms and 77 ns of it a record; on
//   the host's threads a scope's cost for each call, while recorded.
PITOT_EXPORT std::unique_ptr<Collector> MakeCuptiCollector(const CuptiOptions& options = {}) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_COLLECT_CUPTI_H_
