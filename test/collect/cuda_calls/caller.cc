// SPDX-License-Identifier: Apache-2.0
//
// A library of a program: it calls CUDA's runtime through its import table.
#include "collect/cuda_calls/fake_cudart.h"

extern "C" {

extern fakes::RuntimeCall fake_cudart_last;
extern int fake_cudart_result;
extern int64_t fake_cudart_spins_ns;
extern int (*fake_cudart_inside)();
int cudaStreamSynchronize(void*);
int cudaMemcpy(void*, const void*, size_t, int);
int cudaMemcpyAsync(void*, const void*, size_t, int, void*);
int cudaMalloc(void**, size_t);
int cudaMallocAsync(void**, size_t, void*);
int cudaFree(void*);
int nvrtcCompileProgram(void*, int, const char* const*);
int cudaLaunchKernel(const void*, fakes::Dim3, fakes::Dim3, void**, size_t, void*);
int cudaLaunchKernel_ptsz(const void*, fakes::Dim3, fakes::Dim3, void**, size_t, void*);
int __cudaLaunchKernel(const void*, fakes::Dim3, fakes::Dim3, void**, size_t, void*);
int __cudaGetKernel(void**, const void*);
int cudaLaunchKernelExC(const void*, const void*, void**);
int cudaStreamDestroy(void*);
int cudaStreamBeginCapture(void*, int);
int cudaStreamEndCapture(void*, void**);
int cudaDeviceSynchronize();
int cudaEventRecord(void*, void*);
int cudaGraphLaunch(void*, void*);
int cudaEventSynchronize(void*);

[[gnu::visibility("default")]] fakes::Caller cuda_caller() {
  return {
      [](void* stream) { return cudaStreamSynchronize(stream); },
      [](void* to, const void* from, size_t bytes, int direction) { return cudaMemcpy(to, from, bytes, direction); },
      [](void* to, const void* from, size_t bytes, int direction, void* stream) {
        return cudaMemcpyAsync(to, from, bytes, direction, stream);
      },
      [](void** memory, size_t bytes) { return cudaMalloc(memory, bytes); },
      [](void** memory, size_t bytes, void* stream) { return cudaMallocAsync(memory, bytes, stream); },
      [](void* memory) { return cudaFree(memory); },
      [](void* program, int options, const char* const* texts) { return nvrtcCompileProgram(program, options, texts); },
      [](const void* kernel, fakes::Dim3 grid, fakes::Dim3 block, void** args, size_t bytes, void* stream) {
        return cudaLaunchKernel(kernel, grid, block, args, bytes, stream);
      },
      [](const void* kernel, fakes::Dim3 grid, fakes::Dim3 block, void** args, size_t bytes, void* stream) {
        return __cudaLaunchKernel(kernel, grid, block, args, bytes, stream);
      },
      [](void** kernel, const void* function) { return __cudaGetKernel(kernel, function); },
      [](const void* config, const void* kernel, void** args) { return cudaLaunchKernelExC(config, kernel, args); },
      [](const void* kernel, fakes::Dim3 grid, fakes::Dim3 block, void** args, size_t bytes, void* stream) {
        return cudaLaunchKernel_ptsz(kernel, grid, block, args, bytes, stream);
      },
      [](void* stream) { return cudaStreamDestroy(stream); },
      [](void* stream, int mode) { return cudaStreamBeginCapture(stream, mode); },
      [](void* stream, void** graph) { return cudaStreamEndCapture(stream, graph); },
      [](void* graph, void* stream) { return cudaGraphLaunch(graph, stream); },
      [] { return cudaDeviceSynchronize(); },
      [](void* event, void* stream) { return cudaEventRecord(event, stream); },
      [](void* event) { return cudaEventSynchronize(event); },
      &fake_cudart_last,
      &fake_cudart_result,
      &fake_cudart_spins_ns,
      &fake_cudart_inside};
}
}
