// SPDX-License-Identifier: Apache-2.0
//
// The trace's GPU part: what ran on devices, and the calls of the driver's or runtime's API that caused it.
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
PITOT_EXPORT const char* GpuKindName(GpuKind kind);  // "kernel"; "unknown" for what no enumerator names

struct DeviceRow {
  uint32_t ordinal = 0;  // CUDA's
  StringId name = 0;
  uint32_t multiprocessors = 0;  // 0: unknown, as all below
  uint32_t threads_per_multiprocessor = 0;
  uint32_t blocks_per_multiprocessor = 0;
  uint32_t registers_per_multiprocessor = 0;
  uint32_t shared_bytes_per_multiprocessor = 0;
};

// A stream of a context of a device.
struct StreamRow {
  uint32_t device = kNone;  // row of devices
  uint32_t context = 0;     // CUPTI's numbers
  uint32_t stream = 0;
  StringId name = 0;         // no collector of Pitot's knows one (docs/guide/gpu.md)
  uint32_t first_event = 0;  // its rows of `gpu`
  uint32_t event_count = 0;
};

// How a kernel was launched.
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
  std::vector<StringId> name;    // as compiled (mangled) for kernels; "HtoD, pageable to device" for copies; a span's
  std::vector<uint32_t> call;    // row of `calls` that caused it, or kNone
  std::vector<uint32_t> shape;   // of kernels: row of shapes; else kNone
  std::vector<uint64_t> bytes;   // of copies and sets; else 0
  std::vector<uint32_t> graph;   // the executable graph that it belongs to; 0: none
  std::vector<uint32_t> node;    // of that graph
  std::vector<StringId> scope_path;  // the scopes in which that node was captured, "forward / attention"; 0: none
  uint32_t size() const { return static_cast<uint32_t>(begin_ns.size()); }
};

// Calls of the CUDA API, sorted by (thread, begin).
struct CallColumns {
  std::vector<int64_t> begin_ns;
  std::vector<int64_t> duration_ns;
  std::vector<uint32_t> thread;   // row of threads, or kNone: one that recorded nothing itself
  std::vector<uint32_t> request;  // row of requests whose context it was made in, or kNone
  std::vector<uint32_t> batch;    // row of batches, or kNone
  std::vector<StringId> name;     // "cudaLaunchKernel"
  // Rows of what a synchronisation waited for, where that is known (docs/guide/gpu.md); else kNone.
  std::vector<uint32_t> stream;  // of streams
  std::vector<uint32_t> device;  // of devices, where it waited for all of a device's streams
  uint32_t size() const { return static_cast<uint32_t>(begin_ns.size()); }
};

// What the driver or the profiling library did meanwhile: loading modules, compiling, flushing.
struct OverheadRow {
  int64_t begin_ns = 0;
  int64_t duration_ns = 0;
  StringId name = 0;
};

// How much was recorded of GPUs, or (Trace::operator_depths) of a framework's operators: kOps, or less for none of
// them. Sorted by begin.
struct DepthRow {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  Depth depth = Depth::kScopes;
};

// What is missing of what GPUs did.
struct GpuLossRow {
  uint32_t stream = kNone;  // row of streams; kNone: of any
  StringId reason = 0;      // "overwritten"
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  uint64_t records = 0;     // 0: number unknown
  uint32_t device = kNone;  // row of devices, the stream's where there is one; kNone: of any
};

// A quantity over time.
struct CounterRow {
  uint32_t device = kNone;  // row of devices; kNone: of the process
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
