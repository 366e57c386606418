// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include <cstdlib>

#include "gpu/work.h"

namespace gpu {

__global__ void Empty() {}

__global__ void Spin(int64_t ns) {
  int64_t begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < ns);
}

struct Graph {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
};

namespace {

constexpr size_t kBufferBytes = 64 << 20;

struct Buffers {
  Buffers() {
    cudaMalloc(&device, kBufferBytes);
    cudaMallocHost(&pinned, kBufferBytes);
    pageable = malloc(kBufferBytes);
  }
  void *device = nullptr, *pinned = nullptr, *pageable = nullptr;
};
Buffers& TheBuffers() {
  static Buffers buffers;
  return buffers;
}

cudaStream_t Of(Stream stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace

int CountDevices() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

const char* LastError() {
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? "" : cudaGetErrorString(error);
}

void Use(int device) { cudaSetDevice(device); }

Stream MakeStream() {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  return stream;
}

void LaunchEmpty(Stream stream) { Empty<<<1, 1, 0, Of(stream)>>>(); }
void LaunchSpin(Stream stream, int64_t ns) { Spin<<<1, 1, 0, Of(stream)>>>(ns); }
void Copy(Stream stream, size_t bytes, bool is_pinned) {
  Buffers& buffers = TheBuffers();
  cudaMemcpyAsync(buffers.device, is_pinned ? buffers.pinned : buffers.pageable, bytes, cudaMemcpyHostToDevice,
                  Of(stream));
}
void Set(Stream stream, size_t bytes) { cudaMemsetAsync(TheBuffers().device, 0, bytes, Of(stream)); }
void Synchronize() { cudaDeviceSynchronize(); }
void SynchronizeStream(Stream stream) { cudaStreamSynchronize(Of(stream)); }

Graph* Capture(Stream stream, int nodes, void (*between)(int node)) {
  auto* const made = new Graph{};
  cudaStreamBeginCapture(Of(stream), cudaStreamCaptureModeThreadLocal);
  for (int node = 0; node < nodes; ++node) {
    if (between != nullptr)
      between(node);
    else
      LaunchEmpty(stream);
  }
  cudaStreamEndCapture(Of(stream), &made->graph);
  cudaGraphInstantiate(&made->exec, made->graph, 0);
  return made;
}

void Replay(Graph* graph, Stream stream) { cudaGraphLaunch(graph->exec, Of(stream)); }

void Free(Graph* graph) {
  cudaGraphExecDestroy(graph->exec);
  cudaGraphDestroy(graph->graph);
  delete graph;
}

void Reset() { cudaDeviceReset(); }

uint64_t FreeDeviceBytes() {
  size_t free_bytes = 0, total = 0;
  return cudaMemGetInfo(&free_bytes, &total) == cudaSuccess ? free_bytes : 0;
}

}  // namespace gpu
