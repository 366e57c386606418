// SPDX-License-Identifier: Apache-2.0
//
// A module with a kernel of its own, to load and to unload.
#include <cuda_runtime.h>

__global__ void OfModule() {}

extern "C" __attribute__((visibility("default"))) void LaunchOfModule(void* stream) {
  OfModule<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>();
}
