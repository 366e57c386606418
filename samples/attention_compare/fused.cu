// SPDX-License-Identifier: Apache-2.0
#include <cfloat>

#include "attention_compare/fused.h"

namespace attention_compare {
namespace {

constexpr int kQueries = 64;  // of a block, one per thread
constexpr int kKeys = 32;     // of a tile in shared memory

__global__ void __launch_bounds__(kQueries)
    FusedAttention(const float* queries, const float* keys, const float* values, float* out, int length) {
  __shared__ float key_tile[kKeys][kHeadDim];
  __shared__ float value_tile[kKeys][kHeadDim];
  const int thread = static_cast<int>(threadIdx.x);
  const int query = static_cast<int>(blockIdx.x) * kQueries + thread;
  const size_t head = static_cast<size_t>(blockIdx.y) * length * kHeadDim;
  const bool has_query = query < length;  // other threads only help to load

  float mine[kHeadDim], sums[kHeadDim];
  const float scale = rsqrtf(static_cast<float>(kHeadDim));
#pragma unroll
  for (int i = 0; i < kHeadDim; ++i) {
    mine[i] = has_query ? queries[head + static_cast<size_t>(query) * kHeadDim + i] * scale : 0;
    sums[i] = 0;
  }
  float most = -FLT_MAX, weight_sum = 0;

  for (int begin = 0; begin < length; begin += kKeys) {
    const int count = min(kKeys, length - begin);
    __syncthreads();  // the previous tile may still be read
    for (int i = thread; i < count * kHeadDim; i += kQueries) {
      const size_t from = head + static_cast<size_t>(begin) * kHeadDim + i;
      key_tile[i / kHeadDim][i % kHeadDim] = keys[from];
      value_tile[i / kHeadDim][i % kHeadDim] = values[from];
    }
    __syncthreads();
    for (int key = 0; key < count; ++key) {
      float score = 0;
#pragma unroll
      for (int i = 0; i < kHeadDim; ++i) score += mine[i] * key_tile[key][i];
      // A score larger than all before scales the sums down.
      const float more = fmaxf(most, score), shrink = __expf(most - more), weight = __expf(score - more);
      most = more;
      weight_sum = weight_sum * shrink + weight;
#pragma unroll
      for (int i = 0; i < kHeadDim; ++i) sums[i] = sums[i] * shrink + weight * value_tile[key][i];
    }
  }

  if (!has_query) return;
#pragma unroll
  for (int i = 0; i < kHeadDim; ++i) out[head + static_cast<size_t>(query) * kHeadDim + i] = sums[i] / weight_sum;
}

}  // namespace

void LaunchFused(const Shape& shape, const float* queries, const float* keys, const float* values, float* out,
                 cudaStream_t stream) {
  const dim3 blocks(static_cast<unsigned>((shape.length + kQueries - 1) / kQueries),
                    static_cast<unsigned>(shape.heads));
  FusedAttention<<<blocks, kQueries, 0, stream>>>(queries, keys, values, out, shape.length);
}

}  // namespace attention_compare
