// SPDX-License-Identifier: Apache-2.0
//
// The kernels of graph_decode: only kernels.cu is compiled by nvcc. All pointers are to device memory. Values that
// change from step to step are read from a State there, so that a step captured once can be replayed for every token.
#ifndef PITOT_SAMPLES_GRAPH_DECODE_KERNELS_H_
#define PITOT_SAMPLES_GRAPH_DECODE_KERNELS_H_

#include <cuda_runtime.h>

namespace graph_decode {

struct State {
  int token;     // the newest token of the sequence
  int position;  // its position, from 0
};

enum class Into { kSet, kAdd };

// out = tokens[state->token] + positions[state->position]: rows of `dim`.
void LaunchEmbed(const State* state, const float* tokens, const float* positions, float* out, int dim,
                 cudaStream_t stream);
// out = x / rms(x) * weights.
void LaunchRmsNorm(const float* x, const float* weights, float* out, int dim, cudaStream_t stream);
// out = matrix * x, or out += matrix * x. `matrix` has `rows` rows of `columns`.
void LaunchMatVec(const float* matrix, const float* x, float* out, int rows, int columns, Into into,
                  cudaStream_t stream);
// Stores key and value, which follow the query in `qkv`, in the caches' row state->position.
void LaunchAppend(const State* state, const float* qkv, float* keys, float* values, int dim, cudaStream_t stream);
// out = attention of `query` over rows 0 to state->position of the caches, `heads` heads; at most `positions` rows.
void LaunchAttention(const State* state, const float* query, const float* keys, const float* values, float* out,
                     int dim, int heads, int positions, cudaStream_t stream);
// out = silu(gate) * up; `gate_up` holds the two one after the other.
void LaunchSwiGlu(const float* gate_up, float* out, int hidden, cudaStream_t stream);
// Makes the token with the largest of `logits` the state's token, at the next position.
void LaunchNextToken(State* state, const float* logits, int vocabulary, cudaStream_t stream);

}  // namespace graph_decode

#endif  // PITOT_SAMPLES_GRAPH_DECODE_KERNELS_H_
