// SPDX-License-Identifier: Apache-2.0
//
// Attention written in the textbook way: three kernels, and all scores in memory.
#ifndef PITOT_SAMPLES_ATTENTION_COMPARE_NAIVE_H_
#define PITOT_SAMPLES_ATTENTION_COMPARE_NAIVE_H_

#include <cuda_runtime.h>

#include "attention_compare/fused.h"

namespace attention_compare {

// `scores` has room for [heads][length][length].
void LaunchScores(const Shape& shape, const float* queries, const float* keys, float* scores, cudaStream_t stream);
void LaunchSoftmax(const Shape& shape, float* scores, cudaStream_t stream);
void LaunchWeightedSum(const Shape& shape, const float* scores, const float* values, float* out, cudaStream_t stream);

}  // namespace attention_compare

#endif  // PITOT_SAMPLES_ATTENTION_COMPARE_NAIVE_H_
