// SPDX-License-Identifier: Apache-2.0
//
// Collect: records NVIDIA GPUs through CUPTI: kernels, copies, graphs, and the calls and scopes that caused them.
//
//   recorder.Add(pitot::MakeCuptiCollector());
//
// By default nothing of CUPTI is called until the host asks for kernels, by a depth. Then CUPTI fills Pitot's buffers
// on the host's threads, and a thread "pitot-cupti" decodes them. See docs/guide/kernels.md. pitot/collect/gpu.h has
// what records GPUs without CUPTI's records.
#ifndef PITOT_COLLECT_CUPTI_H_
#define PITOT_COLLECT_CUPTI_H_

#include <stdint.h>

#include <memory>

#include "pitot/export.h"
#include "pitot/extend/collector.h"

PITOT_NAMESPACE_BEGIN

// When CUPTI may be called for the first time. From then on it costs every launch and every node of a CUDA graph for
// the life of the process, at any depth (docs/lab/gpu.md has numbers).
enum class CuptiAttach : uint8_t {
  // Never, whatever the depth.
  kNever,
  // When the host asks: a depth above kScopes, by Options::depth or Recorder::SetDepth. At kAuto nothing asks, neither
  // an incident nor a late request. Once called, CUPTI also serves kAuto.
  kWhenAsked,
  // In Recorder::Add.
  kAtStart,
};

struct CuptiOptions {
  // The file of libcupti. Null: the one this process has loaded, otherwise the one that matches its CUDA. It is opened
  // when CUPTI is first called; building and linking need nothing from CUDA. It is refused if the process has loaded
  // another file of CUPTI, because the driver supports only one copy. The string is copied.
  const char* library = nullptr;
  // Host memory for GPU records, bytes, 8 MiB to 4 GiB, part of Options::memory_budget_bytes. It covers all that
  // grows; fixed parts take another 1 MiB. What the budget has no room for is on top of it, and logged.
  //
  // A quarter is for the buffers CUPTI writes to. They are allocated once CUPTI is known to be available, and kept
  // until the process ends, because CUPTI may write to them until then. A later collector reuses them if an earlier one
  // had the same memory_bytes; otherwise it allocates its own. The rest holds the newest records, 48 bytes each,
  // allocated as they come. It also holds names and shapes of kernels, streams, nodes of graphs, and a replacement for
  // buffers taken by PyTorch's profiler. Together with the first quarter these take at most five sixths of the whole.
  // Anything without room is left out, and counted in incidents.
  //
  // While an incident is made and written, its rows, 144 bytes each, use a quarter of its rows' part of the budget,
  // what other rows leave, and as much as is on top. The oldest rows without room are left out and counted ("no room in
  // the incident"). CUPTI itself takes more memory of each device and of the host (docs/guide/kernels.md).
  uint64_t memory_bytes = 64ull << 20;
  // Only with attach = kAtStart: whether CUDA graphs can be recorded as a whole, with one record per launch, which
  // costs far less than one per node. CUPTI supports this only if it is enabled before the process initialises CUDA
  // (cuInit, or the first runtime call). It stops working once a graph was made while it was off, and is not available
  // with PyTorch's profiler in the process. Without it graphs are recorded node by node at depths with kernels. Leaving
  // it goes through kernel records: after Recorder::Stop or Pause("cupti") launches cost more for the life of the
  // process, as below, even if no kernel was ever recorded.
  bool graph_level = false;
  // Limit for the lasting cost of recording kernels at depth kAuto, percent of a launching thread's time. Once kernels
  // were recorded, each launch costs more for the life of the process, even while nothing is recorded
  // (docs/lab/gpu.md). This does not bound the cost of the first call of CUPTI (attach). Pitot forecasts the
  // lasting cost from short samples of the calls and one measured cost per launch, extrapolated to other machines.
  // While the forecast is above this limit or not known yet, kAuto records no kernels, and incidents say so. 100:
  // records kernels from CUPTI's first call on, whatever the cost. A depth fixed by the host ignores this option.
  double lasting_cost_percent = 1;
  // Whether PyTorch's profiler may use CUPTI, too, if LibTorch is in the process. If true, CUPTI's only subscription is
  // left to it: calls are then tied through records, and the nodes of CUDA graphs are not known. Set false in servers
  // that never use that profiler. Kernels of CUDA graphs then carry the scopes and operators under which they were
  // captured, but its profiles show no GPU for the life of the process. Without LibTorch both are the same.
  bool allow_torch_profiler = true;
  // When CUPTI may first be called. The price of a late call: graphs captured before then have no scopes, and CUPTI's
  // errors are reported in incidents (Recorder::Resume("cupti") tries again). In a process with LibTorch, CUPTI can
  // then record CUDA calls only all at once, which costs far more. At kAuto it then records kernels only if
  // lasting_cost_percent is 100.
  CuptiAttach attach = CuptiAttach::kWhenAsked;
};

// With kAtStart, add it before the first use of CUDA: some features of CUPTI do not work later, and with LibTorch it
// costs far more. Null if there is no memory.
// Threads: any, but neither in a callback of CUPTI nor while a library is being loaded.
// Errors: Recorder::Add says why no GPU is recorded; everything else is recorded. kInvalidArgument names the option. If
//   CUPTI is called there: kNotFound: there is no libcupti. kAlreadyRunning: another collector has CUPTI.
//   kResourceExhausted: no memory or thread. kUnavailable: no GPU, driver or permission; another tool has CUPTI; CUPTI
//   does not answer; the parent process has it; or the process has another copy than CuptiOptions::library. Later
//   errors, and all reasons for missing kernels, are in incidents ("cupti", "cupti.not_recorded").
// Lifetime: the recorder's. After Recorder::Stop other tools can use CUPTI, and another collector can be added. The
//   library stays loaded, and the buffers stay mapped.
// Cost: none until CUPTI is called: no thread, no buffers. Its first call takes milliseconds to seconds, 30 s at most,
//   in Recorder::Add, SetDepth or Resume. For the cost from then on, see CuptiAttach. In addition the thread runs a
//   round every 20 ms, with a short time per record. On the host's threads each recorded call costs as much as a scope.
PITOT_EXPORT std::unique_ptr<Collector> MakeCuptiCollector(const CuptiOptions& options = {}) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_COLLECT_CUPTI_H_
