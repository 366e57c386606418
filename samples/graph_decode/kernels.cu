// SPDX-License-Identifier: Apache-2.0
#include "graph_decode/kernels.h"

#include <cfloat>

namespace graph_decode {
namespace {

constexpr int kWarp = 32;
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

int Blocks(int size, int per_block) { return (size + per_block - 1) / per_block; }

__device__ float WarpSum(float value) {
  for (int step = kWarp / 2; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
  return value;
}

// The sum over a whole block of kThreads, returned to every thread. `shared` holds kWarps values.
__device__ float BlockSum(float value, float* shared) {
  value = WarpSum(value);
  __syncthreads();  // an earlier sum's result may still be read
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = value;
  __syncthreads();
  float sum = 0;
  for (int warp = 0; warp < kWarps; ++warp) sum += shared[warp];
  return sum;
}

__device__ float BlockMax(float value, float* shared) {
  for (int step = kWarp / 2; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(~0u, value, step));
  __syncthreads();
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = value;
  __syncthreads();
  float most = shared[0];
  for (int warp = 1; warp < kWarps; ++warp) most = fmaxf(most, shared[warp]);
  return most;
}

__global__ void Embed(const State* state, const float* tokens, const float* positions, float* out, int dim) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= dim) return;
  out[i] =
      tokens[static_cast<size_t>(state->token) * dim + i] + positions[static_cast<size_t>(state->position) * dim + i];
}

__global__ void RmsNorm(const float* x, const float* weights, float* out, int dim) {
  __shared__ float shared[kWarps];
  float squares = 0;
  for (int i = static_cast<int>(threadIdx.x); i < dim; i += kThreads) squares += x[i] * x[i];
  const float scale = rsqrtf(BlockSum(squares, shared) / static_cast<float>(dim) + 1e-5f);
  for (int i = static_cast<int>(threadIdx.x); i < dim; i += kThreads) out[i] = x[i] * scale * weights[i];
}

// One warp per row.
__global__ void MatVec(const float* matrix, const float* x, float* out, int rows, int columns, Into into) {
  const int row = static_cast<int>(blockIdx.x * kWarps + threadIdx.x / kWarp);
  if (row >= rows) return;
  const float* const weights = matrix + static_cast<size_t>(row) * columns;
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x % kWarp); i < columns; i += kWarp) sum += weights[i] * x[i];
  sum = WarpSum(sum);
  if (threadIdx.x % kWarp == 0) out[row] = into == Into::kAdd ? out[row] + sum : sum;
}

__global__ void Append(const State* state, const float* qkv, float* keys, float* values, int dim) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= dim) return;
  const size_t to = static_cast<size_t>(state->position) * dim + i;
  keys[to] = qkv[dim + i];
  values[to] = qkv[2 * dim + i];
}

// One block per head: scores of all rows, their softmax, the weighted sum of values.
__global__ void Attention(const State* state, const float* query, const float* keys, const float* values, float* out,
                          int dim, int head_dim) {
  extern __shared__ float scores[];
  __shared__ float shared[kWarps];
  const int rows = state->position + 1, head = static_cast<int>(blockIdx.x) * head_dim;
  const int thread = static_cast<int>(threadIdx.x);
  const float scale = rsqrtf(static_cast<float>(head_dim));
  float most = -FLT_MAX;
  for (int row = thread; row < rows; row += kThreads) {
    const float* const key = keys + static_cast<size_t>(row) * dim + head;
    float score = 0;
    for (int i = 0; i < head_dim; ++i) score += query[head + i] * key[i];
    scores[row] = score * scale;
    most = fmaxf(most, scores[row]);
  }
  most = BlockMax(most, shared);
  float sum = 0;
  for (int row = thread; row < rows; row += kThreads) {
    scores[row] = expf(scores[row] - most);
    sum += scores[row];
  }
  sum = BlockSum(sum, shared);  // now all scores are written, too
  for (int i = thread; i < head_dim; i += kThreads) {
    float value = 0;
    for (int row = 0; row < rows; ++row) value += scores[row] * values[static_cast<size_t>(row) * dim + head + i];
    out[head + i] = value / sum;
  }
}

__global__ void SwiGlu(const float* gate_up, float* out, int hidden) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= hidden) return;
  const float gate = gate_up[i];
  out[i] = gate / (1 + expf(-gate)) * gate_up[hidden + i];
}

// One block. Among equal logits the first wins.
__global__ void NextToken(State* state, const float* logits, int vocabulary) {
  __shared__ float bests[kThreads];
  __shared__ int tokens[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  float best = -FLT_MAX;
  int token = 0;
  for (int i = thread; i < vocabulary; i += kThreads) {
    if (logits[i] > best) best = logits[i], token = i;
  }
  bests[thread] = best;
  tokens[thread] = token;
  for (int step = kThreads / 2; step > 0; step /= 2) {
    __syncthreads();
    if (thread >= step) continue;
    const int other = thread + step;
    if (bests[other] > bests[thread] || (bests[other] == bests[thread] && tokens[other] < tokens[thread]))
      bests[thread] = bests[other], tokens[thread] = tokens[other];
  }
  if (thread != 0) return;
  state->token = tokens[0];
  ++state->position;
}

}  // namespace

void LaunchEmbed(const State* state, const float* tokens, const float* positions, float* out, int dim,
                 cudaStream_t stream) {
  Embed<<<Blocks(dim, kThreads), kThreads, 0, stream>>>(state, tokens, positions, out, dim);
}

void LaunchRmsNorm(const float* x, const float* weights, float* out, int dim, cudaStream_t stream) {
  RmsNorm<<<1, kThreads, 0, stream>>>(x, weights, out, dim);
}

void LaunchMatVec(const float* matrix, const float* x, float* out, int rows, int columns, Into into,
                  cudaStream_t stream) {
  MatVec<<<Blocks(rows, kWarps), kThreads, 0, stream>>>(matrix, x, out, rows, columns, into);
}

void LaunchAppend(const State* state, const float* qkv, float* keys, float* values, int dim, cudaStream_t stream) {
  Append<<<Blocks(dim, kThreads), kThreads, 0, stream>>>(state, qkv, keys, values, dim);
}

void LaunchAttention(const State* state, const float* query, const float* keys, const float* values, float* out,
                     int dim, int heads, int positions, cudaStream_t stream) {
  const size_t scores_bytes = static_cast<size_t>(positions) * sizeof(float);
  Attention<<<heads, kThreads, scores_bytes, stream>>>(state, query, keys, values, out, dim, dim / heads);
}

void LaunchSwiGlu(const float* gate_up, float* out, int hidden, cudaStream_t stream) {
  SwiGlu<<<Blocks(hidden, kThreads), kThreads, 0, stream>>>(gate_up, out, hidden);
}

void LaunchNextToken(State* state, const float* logits, int vocabulary, cudaStream_t stream) {
  NextToken<<<1, kThreads, 0, stream>>>(state, logits, vocabulary);
}

}  // namespace graph_decode
