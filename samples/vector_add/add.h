// SPDX-License-Identifier: Apache-2.0
//
// The kernel of vector_add: only add.cu is compiled by nvcc.
#ifndef PITOT_SAMPLES_VECTOR_ADD_ADD_H_
#define PITOT_SAMPLES_VECTOR_ADD_ADD_H_

#include <cuda_runtime.h>

#include <cstddef>

namespace vector_add {

// sums[i] = a[i] + b[i], on `stream`; all in device memory.
void LaunchAdd(const float* a, const float* b, float* sums, size_t size, cudaStream_t stream);

}  // namespace vector_add

#endif  // PITOT_SAMPLES_VECTOR_ADD_ADD_H_
