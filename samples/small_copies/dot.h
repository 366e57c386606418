// SPDX-License-Identifier: Apache-2.0
//
// The kernel of small_copies: only dot.cu is compiled by nvcc.
#ifndef PITOT_SAMPLES_SMALL_COPIES_DOT_H_
#define PITOT_SAMPLES_SMALL_COPIES_DOT_H_

#include <cuda_runtime.h>

namespace small_copies {

// scores[i] is the dot product of feature `i`, `size` floats, with `weights`; all in device memory.
void LaunchDot(const float* features, const float* weights, float* scores, int count, int size, cudaStream_t stream);

}  // namespace small_copies

#endif  // PITOT_SAMPLES_SMALL_COPIES_DOT_H_
