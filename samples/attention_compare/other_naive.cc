// SPDX-License-Identifier: Apache-2.0
#include "attention_compare/naive.h"
#include "attention_compare/other.h"
#include "gpu_common/cuda.h"

namespace attention_compare {
namespace {

class Naive final : public Other {
 public:
  explicit Naive(const Shape& shape)
      : shape_(shape),
        scores_(static_cast<size_t>(shape.heads) * static_cast<size_t>(shape.length) *
                static_cast<size_t>(shape.length)),
        out_(static_cast<size_t>(shape.heads) * static_cast<size_t>(shape.length) * kHeadDim) {}
  const char* route() const override { return "/naive"; }
  const char* about() const override {
    return "built without LibTorch for CUDA: the fused kernel is compared with three plain ones";
  }
  void Launch(const float* queries, const float* keys, const float* values, cudaStream_t stream) override {
    LaunchScores(shape_, queries, keys, scores_.data(), stream);
    LaunchSoftmax(shape_, scores_.data(), stream);
    LaunchWeightedSum(shape_, scores_.data(), values, out_.data(), stream);
    gpu_common::Check(cudaGetLastError(), "a kernel");
  }
  std::vector<float> Result() const override { return out_.ToHost(); }

 private:
  const Shape shape_;
  const gpu_common::DeviceArray<float> scores_, out_;
};

}  // namespace

std::unique_ptr<Other> MakeOther(const Shape& shape) { return std::make_unique<Naive>(shape); }

}  // namespace attention_compare
