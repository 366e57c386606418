// SPDX-License-Identifier: Apache-2.0
//
// Collect: records LibTorch's operators, in the ring of the thread that runs them. Link pitot::torch, which is built
// against the host's LibTorch.
//
//   pitot::torch::Enable(recorder);  // after Recorder::Start
//
// Operators are recorded at Depth::kOps. Ranges of at::RecordFunction's user scope (torch::profiler::record_function)
// are recorded at every depth, and cost nothing if there are none. Kernels are tied to operators by their launches. See
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
  // Adds to each operator the sizes and types of its tensors, cut at 48 bytes, and for costly ones an estimate of its
  // floating point operations. It makes each recorded operator more expensive. Active while everything is recorded for
  // an incident (a trigger fired, or a request is late), and at a depth kOps fixed by the host; not in the governor's
  // trials.
  bool shapes = false;
  // Tracks tensor memory on the CPU and on GPUs, over time and as a peak per request. Calls of cudaMalloc and
  // out-of-memory errors appear where they happened, and at depth kOps each allocation of 64 KiB or more. A kind of
  // memory that cannot be watched is left out; attribute torch.memory.not_recorded says why.
  // Lifetime: LibTorch's allocators are watched from the first Enable to the end of the process. The library that
  //   contains pitot::torch must not be unloaded after that.
  // Cost: every allocation and free of tensors becomes slightly more expensive, at every depth and also after
  //   Recorder::Stop (docs/lab/torch.md has numbers).
  // Memory: 1 MiB for the CPU and 2 MiB for each GPU (of 16) once it has memory, and an eighth of that while an
  //   incident is made. It is part of Options::memory_budget_bytes, and included in Stats::collector_bytes.
  bool memory = true;
};

// One in a process. Errors of Add: kUnavailable if the LibTorch in the process has another version (major or minor)
// than the one pitot::torch was built against; the message has both. Also kUnavailable in the child of a fork that
// happened while LibTorch's callbacks were being changed (some us when the depth changes; Enable, with CUDA's start,
// and Stop). kAlreadyRunning. In the child of a fork another one can be added to the child's recorder.
// Threads: operators are recorded on whichever thread runs them. PyTorch's profiler can run at the same time.
// Cost: nothing below depth kOps. At kOps each operator pays for LibTorch's callback and for Pitot's record
//   (docs/lab/torch.md has numbers). A change of depth takes a lock of LibTorch. Each thread that runs operators
//   while they are recorded allocates 13 KiB, until it ends. Null if there is no memory.
PITOT_EXPORT std::unique_ptr<Collector> MakeTorchCollector(const TorchOptions& options = {}) noexcept;

namespace torch {

// Starts to record LibTorch. `recorder` is a running pitot::Recorder.
// Errors: as MakeTorchCollector.
// Threads: any, which may end afterwards.
// Lifetime: until the recorder stops, then another may be enabled; memory stays watched (TorchOptions::memory). The
//   ring of a busy thread grows within Options::memory_budget_bytes; operators may need more (docs/guide/torch.md).
template <class Recorder> Status Enable(Recorder& recorder, const TorchOptions& options = {}) noexcept {
  return recorder.Add(MakeTorchCollector(options));
}

inline constexpr int32_t kCpu = -1;

// Memory that LibTorch has allocated for tensors, and memory it has reserved on the device. On the CPU this covers
// allocations since Enable, as the C library rounds them. On GPUs it equals torch.cuda.memory_allocated() and
// memory_reserved(). It may miss up to 1 MiB: what the last block, if above 1 MiB, exceeds the requested size by.
struct MemoryUse {
  uint64_t allocated_bytes = 0;
  uint64_t most_allocated_bytes = 0;  // since Enable
  uint64_t reserved_bytes = 0;        // GPUs only
  uint64_t retries = 0;               // allocations that had to free cached memory first
  uint64_t out_of_memory = 0;         // failed allocations
};
// `device`: CUDA's ordinal, or kCpu. Returns false if the device is not watched. No GPU is watched in the child of a
// fork whose parent watches them. For a watched GPU without allocations so far, all values are 0.
// Threads: any.
// Cost: some loads.
PITOT_EXPORT bool GetMemoryUse(int32_t device, MemoryUse* use) noexcept;

// Measures the peak of allocated memory during its lifetime, by any code: torch.cuda.max_memory_allocated() for a piece
// of work, without disturbing others. Up to 32 instances are exact, except that memory just freed by another thread may
// still be counted. Beyond 32, accurate to 1-2 ms. It can be made before the device's first allocation.
// Threads: any.
// Cost: some loads and stores.
class PITOT_EXPORT PeakMemory {
 public:
  explicit PeakMemory(int32_t device) noexcept;
  ~PeakMemory();
  PeakMemory(const PeakMemory&) = delete;
  PeakMemory& operator=(const PeakMemory&) = delete;
  // The peak until now. 0 if the device is not watched, or has no allocations. If it became watched later, the peak
  // since then.
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
