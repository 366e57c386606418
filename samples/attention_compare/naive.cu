// SPDX-License-Identifier: Apache-2.0
#include "attention_compare/naive.h"

#include <cfloat>

namespace attention_compare {
namespace {

constexpr int kWarp = 32;
constexpr unsigned kKeys = 128;  // of a block of Scores

// One thread per score: blocks of keys, queries, heads.
__global__ void Scores(const float* queries, const float* keys, float* scores, int length) {
  const int key = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), query = static_cast<int>(blockIdx.y);
  if (key >= length) return;
  const size_t head = static_cast<size_t>(blockIdx.z) * length;
  float score = 0;
  for (int i = 0; i < kHeadDim; ++i)
    score += queries[(head + query) * kHeadDim + i] * keys[(head + key) * kHeadDim + i];
  scores[(head + query) * length + key] = score * rsqrtf(static_cast<float>(kHeadDim));
}

// One warp per row.
__global__ void Softmax(float* scores, int length) {
  float* const row = scores + static_cast<size_t>(blockIdx.x) * length;
  float most = -FLT_MAX, sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < length; i += kWarp) most = fmaxf(most, row[i]);
  for (int step = kWarp / 2; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
  for (int i = static_cast<int>(threadIdx.x); i < length; i += kWarp) {
    row[i] = __expf(row[i] - most);
    sum += row[i];
  }
  for (int step = kWarp / 2; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  for (int i = static_cast<int>(threadIdx.x); i < length; i += kWarp) row[i] /= sum;
}

// One block per query and head, one thread per value.
__global__ void WeightedSum(const float* scores, const float* values, float* out, int length) {
  const size_t head = static_cast<size_t>(blockIdx.y) * length, row = head + blockIdx.x;
  float sum = 0;
  for (int key = 0; key < length; ++key)
    sum += scores[row * length + key] * values[(head + key) * kHeadDim + threadIdx.x];
  out[row * kHeadDim + threadIdx.x] = sum;
}

}  // namespace

void LaunchScores(const Shape& shape, const float* queries, const float* keys, float* scores, cudaStream_t stream) {
  const auto length = static_cast<unsigned>(shape.length);
  const dim3 blocks((length + kKeys - 1) / kKeys, length, static_cast<unsigned>(shape.heads));
  Scores<<<blocks, kKeys, 0, stream>>>(queries, keys, scores, shape.length);
}

void LaunchSoftmax(const Shape& shape, float* scores, cudaStream_t stream) {
  Softmax<<<shape.heads * shape.length, kWarp, 0, stream>>>(scores, shape.length);
}

void LaunchWeightedSum(const Shape& shape, const float* scores, const float* values, float* out, cudaStream_t stream) {
  const dim3 blocks(static_cast<unsigned>(shape.length), static_cast<unsigned>(shape.heads));
  WeightedSum<<<blocks, kHeadDim, 0, stream>>>(scores, values, out, shape.length);
}

}  // namespace attention_compare
