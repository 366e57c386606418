// SPDX-License-Identifier: Apache-2.0
//
// Work for a real GPU, behind plain functions: nvcc compiles only work.cu.
#ifndef PITOT_TEST_GPU_WORK_H_
#define PITOT_TEST_GPU_WORK_H_

#include <cstddef>
#include <cstdint>

namespace gpu {

int CountDevices();  // 0 without a driver
const char* LastError();

// The calling thread's device from now on; its streams are made there.
void Use(int device);

using Stream = void*;
Stream MakeStream();
// Kernels named Empty and Spin.
void LaunchEmpty(Stream stream);
void LaunchSpin(Stream stream, int64_t ns);
// A copy of `bytes` to the device, from pageable or pinned memory.
void Copy(Stream stream, size_t bytes, bool is_pinned);
void Set(Stream stream, size_t bytes);
void Synchronize();
void SynchronizeStream(Stream stream);

// An executable graph: empty kernels in a row, or the work put on the stream for each node by `between`.
struct Graph;
Graph* Capture(Stream stream, int nodes, void (*between)(int node));
void Replay(Graph* graph, Stream stream);
void Free(Graph* graph);

// cudaDeviceReset.
void Reset();
uint64_t FreeDeviceBytes();

}  // namespace gpu

#endif  // PITOT_TEST_GPU_WORK_H_
