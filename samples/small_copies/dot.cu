// SPDX-License-Identifier: Apache-2.0
#include "small_copies/dot.h"

namespace small_copies {
namespace {

constexpr int kWarp = 32;

// One warp per feature.
__global__ void Dot(const float* features, const float* weights, float* scores, int size) {
  const float* const feature = features + static_cast<size_t>(blockIdx.x) * size;
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < size; i += kWarp) sum += feature[i] * weights[i];
  for (int step = kWarp / 2; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
  if (threadIdx.x == 0) scores[blockIdx.x] = sum;
}

}  // namespace

void LaunchDot(const float* features, const float* weights, float* scores, int count, int size, cudaStream_t stream) {
  Dot<<<count, kWarp, 0, stream>>>(features, weights, scores, size);
}

}  // namespace small_copies
