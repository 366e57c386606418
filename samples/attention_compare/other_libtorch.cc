// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdint>

#include "attention_compare/other.h"

namespace attention_compare {
namespace {

class Sdpa final : public Other {
 public:
  explicit Sdpa(const Shape& shape) : sizes_{1, shape.heads, shape.length, kHeadDim} {}
  const char* route() const override { return "/sdpa"; }
  const char* about() const override {
    return "the fused kernel is compared with LibTorch's scaled_dot_product_attention";
  }
  void Launch(const float* queries, const float* keys, const float* values, cudaStream_t stream) override {
    const c10::InferenceMode inference;
    const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromExternal(stream, 0));
    result_ = at::scaled_dot_product_attention(Tensor(queries), Tensor(keys), Tensor(values));
  }
  std::vector<float> Result() const override {
    const c10::InferenceMode inference;
    const at::Tensor result = result_.to(at::kCPU).contiguous();  // its rows may be in another order
    const float* const values = result.data_ptr<float>();
    return {values, values + result.numel()};
  }

 private:
  // A view of existing memory.
  at::Tensor Tensor(const float* data) const {
    return at::from_blob(const_cast<float*>(data), sizes_, at::TensorOptions().dtype(at::kFloat).device(at::kCUDA, 0));
  }
  const std::vector<int64_t> sizes_;
  at::Tensor result_;
};

}  // namespace

std::unique_ptr<Other> MakeOther(const Shape& shape) { return std::make_unique<Sdpa>(shape); }

}  // namespace attention_compare
