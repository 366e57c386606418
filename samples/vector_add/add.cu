// SPDX-License-Identifier: Apache-2.0
#include "vector_add/add.h"

namespace vector_add {
namespace {

constexpr unsigned kThreads = 256;

__global__ void Add(const float* a, const float* b, float* sums, size_t size) {
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < size) sums[i] = a[i] + b[i];
}

}  // namespace

void LaunchAdd(const float* a, const float* b, float* sums, size_t size, cudaStream_t stream) {
  Add<<<static_cast<unsigned>((size + kThreads - 1) / kThreads), kThreads, 0, stream>>>(a, b, sums, size);
}

}  // namespace vector_add
