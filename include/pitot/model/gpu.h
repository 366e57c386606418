// SPDX-License-Identifier: Apache-2.0
//
// The GPU part of a trace: activities on devices, and the calls of the driver's or runtime's API that caused them.
#ifndef PITOT_MODEL_GPU_H_
#define PITOT_MODEL_GPU_H_

#include <stdint.h>

#include <vector>

#include "pitot/depth.h"
#include "pitot/export.h"
#include "pitot/gpu_kind.h"
#include "pitot/model/types.h"

PITOT_NAMESPACE_BEGIN
namespace model {

using pitot::GpuKind;
PITOT_EXPORT const char* GpuKindName(GpuKind kind);  // "kernel"; "unknown" for values without an enumerator

struct DeviceRow {
  uint32_t ordinal = 0;  // CUDA's
  StringId name = 0;
  uint32_t multiprocessors = 0;  // 0: unknown; likewise for all below
  uint32_t threads_per_multiprocessor = 0;
  uint32_t blocks_per_multiprocessor = 0;
  uint32_t registers_per_multiprocessor = 0;
  uint32_t shared_bytes_per_multiprocessor = 0;
  uint32_t threads_per_warp = 0;  // AMD: of a wavefront
};

// A stream of a context of a device.
struct StreamRow {
  uint32_t device = kNone;  // row of devices
  uint32_t context = 0;     // CUPTI's numbers
  uint32_t stream = 0;
  StringId name = 0;         // not known by any of Pitot's collectors (docs/guide/kernels.md)
  uint32_t first_event = 0;  // rows of `gpu`
  uint32_t event_count = 0;
};

// The launch parameters of a kernel.
struct KernelShape {
  uint32_t grid[3] = {0, 0, 0};
  uint32_t block[3] = {0, 0, 0};
  uint32_t static_shared_bytes = 0;
  uint32_t dynamic_shared_bytes = 0;
  uint32_t local_bytes_per_thread = 0;
  uint32_t registers_per_thread = 0;
};

// Sorted by (stream, begin).
struct GpuColumns {
  std::vector<int64_t> begin_ns;
  std::vector<int64_t> duration_ns;
  std::vector<GpuKind> kind;
  std::vector<uint32_t> stream;  // row of streams
  std::vector<StringId> name;  // kernels: as compiled (mangled); copies: "HtoD, pageable to device"; spans: the scope's
  std::vector<uint32_t> call;  // row of the causing `calls`, or kNone
  std::vector<uint32_t> shape;  // kernels: row of shapes; otherwise kNone
  std::vector<uint64_t> bytes;  // for copies and sets; otherwise 0
  std::vector<uint32_t> graph;  // its executable graph; 0: none
  std::vector<uint32_t> node;   // its node in that graph
  // The scopes in which that node was captured, "forward / attention"; 0: none.
  std::vector<StringId> scope_path;
  uint32_t size() const { return static_cast<uint32_t>(begin_ns.size()); }
};

// Calls of the CUDA API, sorted by (thread, begin).
struct CallColumns {
  std::vector<int64_t> begin_ns;
  std::vector<int64_t> duration_ns;
  std::vector<uint32_t> thread;   // row of threads, or kNone: the thread recorded nothing itself
  std::vector<uint32_t> request;  // row of requests, by the context of the call, or kNone
  std::vector<uint32_t> batch;    // row of batches, or kNone
  std::vector<StringId> name;     // "cudaLaunchKernel"
  // The target of a synchronisation, if known (docs/guide/cuda_calls.md); otherwise kNone.
  std::vector<uint32_t> stream;  // row of streams
  std::vector<uint32_t> device;  // row of devices, if it waited for all streams of one
  uint32_t size() const { return static_cast<uint32_t>(begin_ns.size()); }
};

// Other activity of the driver or a profiling tool: loading modules, compiling, flushing, profiling kernels.
struct OverheadRow {
  int64_t begin_ns = 0;
  int64_t duration_ns = 0;
  StringId name = 0;
};

// The depth at which GPUs were recorded; for Trace::operator_depths, kOps if a framework's operators were recorded and
// less if not. Sorted by begin. Processes that were recorded at different depths have a row each for the same time.
struct DepthRow {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  Depth depth = Depth::kScopes;
};

// Missing GPU records.
struct GpuLossRow {
  uint32_t stream = kNone;  // row of streams; kNone: any
  StringId reason = 0;      // "overwritten"
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  uint64_t records = 0;     // 0: number unknown
  uint32_t device = kNone;  // row of devices, the stream's if there is one; kNone: any
};

// A quantity over time.
struct CounterRow {
  uint32_t device = kNone;  // row of devices; kNone: the process
  StringId name = 0;
  StringId unit = 0;
};

// Values of counters from a moment on, sorted by (counter, time).
struct SampleColumns {
  std::vector<uint32_t> counter;
  std::vector<int64_t> at_ns;
  std::vector<double> value;  // finite
  uint32_t size() const { return static_cast<uint32_t>(at_ns.size()); }
};

}  // namespace model
PITOT_NAMESPACE_END

#endif  // PITOT_MODEL_GPU_H_
