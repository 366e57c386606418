// SPDX-License-Identifier: Apache-2.0
//
// Classifies the work in a trace, and finds when each class was active.
#ifndef PITOT_MODEL_CLASSES_H_
#define PITOT_MODEL_CLASSES_H_

#include <stdint.h>

#include <string_view>
#include <vector>

#include "pitot/export.h"
#include "pitot/model/index.h"
#include "pitot/model/intervals.h"
#include "pitot/model/trace.h"

PITOT_NAMESPACE_BEGIN
namespace model {

// Classes of GPU work, by priority: a moment counts for the first class that is active.
enum class GpuClass : uint8_t { kCompute = 0, kCommunication = 1, kMemcpy = 2, kMemset = 3 };
inline constexpr uint32_t kGpuClasses = 4;
PITOT_EXPORT const char* GpuClassName(GpuClass of);  // "communication"

// Classes of threads' work, by the same rule. A moment may have several: an operator contains the call that waits in
// it.
enum class HostClass : uint8_t {
  kSynchronization = 0,  // calls that wait for a GPU
  kAllocation = 1,       // calls that allocate or free memory of devices, or pin it
  kApi = 2,              // other calls of the CUDA or HIP API
  kLoader = 3,           // waiting for the next batch of data
  kOperator = 4,         // a framework's operators
  kScope = 5,            // scopes, except frames of a step and Python code in it
};
inline constexpr uint32_t kHostClasses = 6;
PITOT_EXPORT const char* HostClassName(HostClass of);  // "synchronization"

// By the function's name, as compiled or written: the collectives' libraries below, NVSHMEM, DeepEP, PyTorch's
// symmetric memory, the all-reduces of inference servers. A product with a collective fused into it is computing.
PITOT_EXPORT bool IsCommunicationKernel(std::string_view name);
PITOT_EXPORT bool IsCollectiveLibrary(std::string_view kernel);  // nccl, rccl, hccl
PITOT_EXPORT bool IsSynchronization(std::string_view call);      // "cudaStreamSynchronize", "hipEventSynchronize"
PITOT_EXPORT bool IsSubmission(std::string_view call);           // "cudaLaunchKernel", "cuMemcpyAsync": work for a GPU
PITOT_EXPORT bool IsAllocation(std::string_view call);           // "cudaMalloc", "cudaFreeHost", "cuMemAlloc_v2"
PITOT_EXPORT bool IsMark(std::string_view call);  // "CudaEventScope": marks where a span begins, not a call of the API
// PyTorch's "enumerate(DataLoader)#...__next__", TensorFlow's "IteratorGetNextOp::DoCompute", DALI's copies of outputs,
// and a host's own "next batch".
PITOT_EXPORT bool IsLoader(std::string_view scope);
PITOT_EXPORT bool IsProfilerStep(std::string_view scope);  // "ProfilerStep#7": a step of a PyTorch trace
// The attribute of a trace that names the argument of its steps' scopes. Readers of JAX's and TensorFlow's profiles set
// it.
inline constexpr std::string_view kStepArgumentKey = "step_argument";
// The steps of a trace: those of PyTorch's profiler, and scopes with that argument.
class PITOT_EXPORT Steps {
 public:
  // O(sites). Keeps a reference to the trace.
  explicit Steps(const Trace& trace);
  bool IsSite(uint32_t site) const { return is_step_[site]; }
  bool Is(uint32_t event) const;

 private:
  const Trace& trace_;
  std::vector<bool> is_step_;  // by site
};
// Kernels and graphs are compute or communication. Not defined for spans.
PITOT_EXPORT GpuClass GpuClassOf(const Trace& trace, uint32_t gpu_row);

// When each class was active, as interval sets.
class PITOT_EXPORT IntervalSets {
 public:
  // O(n log n). Keeps no reference to the trace.
  explicit IntervalSets(const Trace& trace);
  // On a device; kNone: on streams whose device is unknown. Spans are left out, because they include gaps.
  const Intervals& Gpu(uint32_t device, GpuClass of) const {
    return gpu_[(device == kNone ? devices_ : device) * kGpuClasses + static_cast<uint32_t>(of)];
  }
  // On any thread.
  const Intervals& Host(HostClass of) const { return host_[static_cast<uint32_t>(of)]; }

 private:
  uint32_t devices_;
  std::vector<Intervals> gpu_, host_;
};

// The host's sets of single threads.
class PITOT_EXPORT ThreadSets {
 public:
  // O(sites). The trace must outlive this.
  explicit ThreadSets(const Trace& trace);
  // By class; for kNone those of calls whose thread is unknown. O(n log n) of its rows.
  std::vector<Intervals> Of(uint32_t thread) const;

 private:
  const Trace& trace_;
  const std::vector<HostClass> sites_;  // kHostClasses: no class
};

}  // namespace model
PITOT_NAMESPACE_END

#endif  // PITOT_MODEL_CLASSES_H_
