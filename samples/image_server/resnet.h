// SPDX-License-Identifier: Apache-2.0
//
// ResNet-50 (He et al., 2015, with the stride in the 3x3 convolution) as LibTorch modules, with random weights. `width`
// scales every layer: 64 is the published network, 16 serves over a hundred small pictures a second on two CPU cores.
#ifndef SAMPLES_IMAGE_SERVER_RESNET_H_
#define SAMPLES_IMAGE_SERVER_RESNET_H_

#include <torch/torch.h>

#include <cstdint>

namespace image_server {

// 1x1 down, 3x3, 1x1 up to four times the width, and a shortcut around them.
class BottleneckImpl : public torch::nn::Module {
 public:
  static constexpr int64_t kExpansion = 4;

  BottleneckImpl(int64_t in_channels, int64_t width, int64_t stride);
  torch::Tensor forward(const torch::Tensor& input);

 private:
  torch::nn::Sequential body_{nullptr};
  torch::nn::Sequential shortcut_{nullptr};  // empty where input and output have the same shape
};
TORCH_MODULE(Bottleneck);

class ResNet50Impl : public torch::nn::Module {
 public:
  ResNet50Impl(int64_t width, int64_t classes);
  // [n, 3, side, side] to [n, classes], not yet softmaxed.
  torch::Tensor forward(const torch::Tensor& pictures);

 private:
  torch::nn::Sequential stem_{nullptr};
  torch::nn::Sequential stages_[4] = {nullptr, nullptr, nullptr, nullptr};
  torch::nn::Linear classifier_{nullptr};
};
TORCH_MODULE(ResNet50);

}  // namespace image_server

#endif  // SAMPLES_IMAGE_SERVER_RESNET_H_
