// SPDX-License-Identifier: Apache-2.0
//
// Work for a real GPU, behind plain functions: only work.cu is compiled by nvcc.
#ifndef PITOT_TEST_GPU_WORK_H_
#define PITOT_TEST_GPU_WORK_H_

#include <cstddef>
#include <cstdint>

namespace gpu {

int CountDevices();  // 0 without a driver
const char* LastError();

// The calling thread's device from now on: its streams are made there.
void Use(int device);

using Stream = void*;
Stream MakeStream();
// Kernels named Empty and Spin.
void LaunchEmpty(Stream stream);
void LaunchSpin(Stream stream, int64_t ns);
// To the device, of `bytes`, from pageable or pinned memory.
void Copy(Stream stream, size_t bytes, bool is_pinned);
void Set(Stream stream, size_t bytes);
void Synchronize();
void SynchronizeStream(Stream stream);

// A graph of empty kernels in a row, or of what `between` puts on the stream for each node, made executable.
struct Graph;
Graph* Capture(Stream stream, int nodes, void (*between)(int node));
void Replay(Graph* graph, Stream stream);
void Free(Graph* graph);

// cudaDeviceReset.
void Reset();
uint64_t FreeDeviceBytes();

}  // namespace gpu

#endif  // PITOT_TEST_GPU_WORK_H_
