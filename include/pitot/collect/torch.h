// SPDX-License-Identifier: Apache-2.0
//
// Collect: the operators that LibTorch runs, in the ring of the thread that runs them. Link pitot::torch, which is
// built against the host's LibTorch.
//
//   pitot::torch::Enable(recorder);  // after Recorder::Start
//
// Operators are recorded at Depth::kOps, ranges of at::RecordFunction's user scope (torch::profiler::record_function)
// at every depth: they cost nothing where there are none. Kernels are tied to operators by their launches.
// docs/torch.md.
#ifndef PITOT_COLLECT_TORCH_H_
#define PITOT_COLLECT_TORCH_H_

#include <memory>

#include "pitot/export.h"
#include "pitot/extend/collector.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN

struct TorchOptions {
  // With each operator the sizes and types of its tensors, cut at 48 bytes, and an estimate of its floating point
  // operations where it is one of those that cost. Some 20 ns an operator more.
  bool shapes = false;
};

// One in a process. Errors of Add: kUnavailable where the LibTorch in the process is of another version than the one
// pitot::torch was built against (major and minor), with both in the message; kAlreadyRunning.
// Threads: operators are recorded on whichever thread runs them. PyTorch's profiler may run beside.
// Cost: nothing while the depth is less than kOps; then about 0.1 us an operator for LibTorch's calling us, and 0.03 us
// for what we do. Switching takes a lock of LibTorch's, 1 us.
// Null if there is no memory.
PITOT_EXPORT std::unique_ptr<Collector> MakeTorchCollector(const TorchOptions& options = {}) noexcept;

namespace torch {

// Records what LibTorch does. `recorder` is a pitot::Recorder that runs. Errors: as MakeTorchCollector.
template <class Recorder> Status Enable(Recorder& recorder, const TorchOptions& options = {}) noexcept {
  return recorder.Add(MakeTorchCollector(options));
}

}  // namespace torch
PITOT_NAMESPACE_END

#endif  // PITOT_COLLECT_TORCH_H_
