// SPDX-License-Identifier: Apache-2.0
//
// The reference for the fused kernel. CMake chooses it: other_libtorch.cc or other_naive.cc.
#ifndef PITOT_SAMPLES_ATTENTION_COMPARE_OTHER_H_
#define PITOT_SAMPLES_ATTENTION_COMPARE_OTHER_H_

#include <cuda_runtime.h>

#include <memory>
#include <vector>

#include "attention_compare/fused.h"

namespace attention_compare {

class Other {
 public:
  virtual ~Other() = default;
  virtual const char* route() const = 0;  // "/sdpa"
  virtual const char* about() const = 0;  // a sentence
  // Like LaunchFused, but into its own memory.
  virtual void Launch(const float* queries, const float* keys, const float* values, cudaStream_t stream) = 0;
  // The result of the previous launch; its stream must have been waited for.
  virtual std::vector<float> Result() const = 0;
};
// Uses CUDA.
std::unique_ptr<Other> MakeOther(const Shape& shape);

}  // namespace attention_compare

#endif  // PITOT_SAMPLES_ATTENTION_COMPARE_OTHER_H_
