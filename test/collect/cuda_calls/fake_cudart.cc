// SPDX-License-Identifier: Apache-2.0
#include "collect/cuda_calls/fake_cudart.h"

#include <time.h>

namespace {

int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] fakes::RuntimeCall fake_cudart_last;
[[gnu::visibility("default")]] int fake_cudart_result = 0;
[[gnu::visibility("default")]] int64_t fake_cudart_spins_ns = 0;
[[gnu::visibility("default")]] int (*fake_cudart_inside)() = nullptr;
}

namespace {

template <class... Words> int Note(const char* function, Words... words) {
  fake_cudart_last = {FAKE_VERSION, function, {reinterpret_cast<uintptr_t>(words)...}};
  const int64_t until_ns = NowNs() + fake_cudart_spins_ns;
  while (fake_cudart_spins_ns != 0 && NowNs() < until_ns) {}
  if (fake_cudart_inside != nullptr) fake_cudart_inside();
  return fake_cudart_result;
}
void* Word(uint64_t word) { return reinterpret_cast<void*>(word); }

}  // namespace

extern "C" {

#define EXPORTED [[gnu::visibility("default")]]
EXPORTED int cudaStreamSynchronize(void* stream) { return Note("cudaStreamSynchronize", stream); }
EXPORTED int cudaEventRecord(void* event, void* stream) { return Note("cudaEventRecord", event, stream); }
EXPORTED int cudaEventSynchronize(void* event) { return Note("cudaEventSynchronize", event); }
EXPORTED int cudaDeviceSynchronize() { return Note("cudaDeviceSynchronize"); }
EXPORTED int cudaMemcpy(void* to, const void* from, size_t bytes, int direction) {
  return Note("cudaMemcpy", to, from, Word(bytes), Word(static_cast<uint64_t>(direction)));
}
EXPORTED int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int direction, void* stream) {
  return Note("cudaMemcpyAsync", to, from, Word(bytes), Word(static_cast<uint64_t>(direction)), stream);
}
EXPORTED int cudaMalloc(void** memory, size_t bytes) { return Note("cudaMalloc", memory, Word(bytes)); }
EXPORTED int cudaMallocAsync(void** memory, size_t bytes, void* stream) {
  return Note("cudaMallocAsync", memory, Word(bytes), stream);
}
EXPORTED int cudaFree(void* memory) { return Note("cudaFree", memory); }
EXPORTED int nvrtcCompileProgram(void* program, int, const char* const*) {
  return Note("nvrtcCompileProgram", program);
}
EXPORTED int cudaLaunchKernel(const void* kernel, fakes::Dim3 grid, fakes::Dim3 block, void** args, size_t bytes,
                              void* stream) {
  return Note("cudaLaunchKernel", kernel, Word(grid.x), Word(grid.z), Word(block.x), Word(block.z), args, Word(bytes),
              stream);
}
EXPORTED int cudaLaunchKernel_ptsz(const void* kernel, fakes::Dim3, fakes::Dim3, void**, size_t, void* stream) {
  return Note("cudaLaunchKernel_ptsz", kernel, stream);
}
EXPORTED int __cudaLaunchKernel(const void* kernel, fakes::Dim3, fakes::Dim3, void**, size_t, void* stream) {
  return Note("__cudaLaunchKernel", kernel, stream);
}
EXPORTED int __cudaGetKernel(void** kernel, const void* function) { return Note("__cudaGetKernel", kernel, function); }
EXPORTED int cudaLaunchKernelExC(const void* config, const void* kernel, void** args) {
  return Note("cudaLaunchKernelExC", config, kernel, args);
}
EXPORTED int cudaStreamDestroy(void* stream) { return Note("cudaStreamDestroy", stream); }
EXPORTED int cudaStreamBeginCapture(void* stream, int mode) {
  return Note("cudaStreamBeginCapture", stream, Word(static_cast<uint64_t>(mode)));
}
EXPORTED int cudaGraphLaunch(void* graph, void* stream) { return Note("cudaGraphLaunch", graph, stream); }
EXPORTED int cudaStreamEndCapture(void* stream, void** graph) { return Note("cudaStreamEndCapture", stream, graph); }
}
