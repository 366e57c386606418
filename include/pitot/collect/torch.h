// SPDX-License-Identifier: Apache-2.0
//
// Collect: the operators that LibTorch runs, in the ring of the thread that runs them. Link pitot::torch, which is
// built against the host's LibTorch.
//
//   pitot::torch::Enable(recorder);  // after Recorder::Start
//
// Operators are recorded at Depth::kOps, ranges of at::RecordFunction's user scope (torch::profiler::record_function)
// at every depth: they cost nothing where there are none. Kernels are tied to operators by their launches.
// docs/guide/torch.md.
#ifndef PITOT_COLLECT_TORCH_H_
#define PITOT_COLLECT_TORCH_H_

#include <stdint.h>

#include <memory>

#include "pitot/export.h"
#include "pitot/extend/collector.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN

struct TorchOptions {
  // With each operator the sizes and types of its tensors, cut at 48 bytes, and an estimate of its floating point
  // operations where it is one of those that cost. Some 80 ns an operator more. While all is recorded for an incident
  // (something has fired or is late), and where the host has fixed depth kOps; not in the governor's trials.
  bool shapes = false;
  // What tensors take of memory, on the CPU and on GPUs, over time and at most for each request; calls of cudaMalloc,
  // and out of memory, where they happened; at depth kOps each allocation of 64 KiB or more. A kind of memory that
  // cannot be watched is left out, and attribute torch.memory.not_recorded says why.
  // Lifetime: LibTorch's allocators are watched from the first Enable to the end of the process, and the library that
  // holds pitot::torch may not be unloaded after.
  // Cost: by machine 0.01 to 0.02 us for each allocation and each free on the CPU, for a block of CUDA's caching
  // allocator taken and given back 0.3 us in a loop, some 0.8 in an eager model, of which at batch 1 that is 4 to 7 %
  // (docs/guide/torch.md), at every depth and also after Recorder::Stop; 1 MiB for the CPU and 2 MiB for each GPU (of 16)
  // once it has memory, and an eighth of that while an incident is made: beside Options::memory_budget_bytes, in
  // Stats::collector_bytes.
  bool memory = true;
};

// One in a process. Errors of Add: kUnavailable where the LibTorch in the process is of another version than the one
// pitot::torch was built against (major and minor), with both in the message, and in the child of a fork that happened
// while LibTorch was being told what to call (some us when the depth changes; Enable, with CUDA's start, and Stop);
// kAlreadyRunning. In the child of a fork another may be added to the child's recorder.
// Threads: operators are recorded on whichever thread runs them. PyTorch's profiler may run beside.
// Cost: nothing while the depth is less than kOps; then, by machine, 0.03 to 0.1 us an operator for LibTorch's calling
// us and 0.01 to 0.13 us for what we do, in a pass on an H100 0.18 to 0.26 us (docs/guide/torch.md). Switching takes a lock
// of LibTorch's, 1 us. 13 KiB for each thread that runs operators while they are recorded, to its end. Null if there is
// no memory.
PITOT_EXPORT std::unique_ptr<Collector> MakeTorchCollector(const TorchOptions& options = {}) noexcept;

namespace torch {

// Records what LibTorch does. `recorder` is a pitot::Recorder that runs. Errors: as MakeTorchCollector. Threads: any,
// which may end after. Lifetime: until the recorder stops, then another may be enabled; memory stays watched
// (TorchOptions::memory). A busy thread keeps a quarter of a second of operators in a ring of the default's size: raise
// Options::max_ring_bytes and memory_budget_bytes together (docs/guide/instrument.md).
template <class Recorder> Status Enable(Recorder& recorder, const TorchOptions& options = {}) noexcept {
  return recorder.Add(MakeTorchCollector(options));
}

inline constexpr int32_t kCpu = -1;

// What LibTorch has allocated for tensors, and has taken of the device to allocate from. On the CPU counts what was
// allocated since Enable, as the C library rounds it; on GPUs as torch.cuda.memory_allocated() and
// memory_reserved() do (but for what the block given last, if above 1 MiB, is larger than was asked for: up to 1 MiB).
struct MemoryUse {
  uint64_t allocated_bytes = 0;
  uint64_t most_allocated_bytes = 0;  // since Enable
  uint64_t reserved_bytes = 0;        // of GPUs
  uint64_t retries = 0;               // allocations for which cached memory had to be freed
  uint64_t out_of_memory = 0;         // allocations that failed
};
// `device`: CUDA's ordinal, or kCpu. False if it is not watched, as no GPU is in the child of a fork whose parent
// watches them; of a GPU that is, and has allocated nothing yet, all are 0. Threads: any. Cost: some loads.
PITOT_EXPORT bool GetMemoryUse(int32_t device, MemoryUse* use) noexcept;

// How much was allocated at most while it lives, by whomever: torch.cuda.max_memory_allocated() of a piece of work,
// which disturbs no other. 32 at a time are exact, but that memory which another thread has just freed may count;
// more, to a millisecond or two. Before the device's first allocation it may be made, too. Threads: any. Cost: 50 ns.
class PITOT_EXPORT PeakMemory {
 public:
  explicit PeakMemory(int32_t device) noexcept;
  ~PeakMemory();
  PeakMemory(const PeakMemory&) = delete;
  PeakMemory& operator=(const PeakMemory&) = delete;
  // Until now. 0 if the device is not watched, or has allocated nothing; of one that is watched only since, from then
  // on.
  uint64_t bytes() const noexcept;

 private:
  void* memory_;
  int64_t begin_;
  int peak_;
  int32_t device_;
};

}  // namespace torch
PITOT_NAMESPACE_END

#endif  // PITOT_COLLECT_TORCH_H_
