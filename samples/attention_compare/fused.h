// SPDX-License-Identifier: Apache-2.0
//
// The project's own attention kernel: only .cu files are compiled by nvcc.
#ifndef PITOT_SAMPLES_ATTENTION_COMPARE_FUSED_H_
#define PITOT_SAMPLES_ATTENTION_COMPARE_FUSED_H_

#include <cuda_runtime.h>

namespace attention_compare {

constexpr int kHeadDim = 64;

// Queries, keys, values and the result are [heads][length][kHeadDim].
struct Shape {
  int heads = 8;
  int length = 1024;
};

// out = softmax(queries * keys^T / sqrt(kHeadDim)) * values for each head; all in device memory. The scores are never
// written to memory: a block keeps a tile of queries and walks over the keys with an online softmax.
void LaunchFused(const Shape& shape, const float* queries, const float* keys, const float* values, float* out,
                 cudaStream_t stream);

}  // namespace attention_compare

#endif  // PITOT_SAMPLES_ATTENTION_COMPARE_FUSED_H_
