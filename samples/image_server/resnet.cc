// SPDX-License-Identifier: Apache-2.0
#include "image_server/resnet.h"

#include <string>

#include "pitot/phase.h"

namespace image_server {
namespace {

namespace nn = torch::nn;

nn::Conv2d Convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

nn::ReLU Relu() { return nn::ReLU(nn::ReLUOptions().inplace(true)); }

}  // namespace

BottleneckImpl::BottleneckImpl(int64_t in_channels, int64_t width, int64_t stride) {
  const int64_t out_channels = width * kExpansion;
  body_ = nn::Sequential(Convolution(in_channels, width, 1, 1), nn::BatchNorm2d(width), Relu(),
                         Convolution(width, width, 3, stride), nn::BatchNorm2d(width), Relu(),
                         Convolution(width, out_channels, 1, 1), nn::BatchNorm2d(out_channels));
  shortcut_ = nn::Sequential();
  if (stride != 1 || in_channels != out_channels) {
    shortcut_->push_back(Convolution(in_channels, out_channels, 1, stride));
    shortcut_->push_back(nn::BatchNorm2d(out_channels));
  }
  register_module("body", body_);
  register_module("shortcut", shortcut_);
}

torch::Tensor BottleneckImpl::forward(const torch::Tensor& input) {
  torch::Tensor output = body_->forward(input);
  output += shortcut_->is_empty() ? input : shortcut_->forward(input);
  return output.relu_();
}

ResNet50Impl::ResNet50Impl(int64_t width, int64_t classes) {
  stem_ = nn::Sequential(Convolution(3, width, 7, 2), nn::BatchNorm2d(width), Relu(),
                         nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(2).padding(1)));
  register_module("stem", stem_);

  constexpr int kBlocks[4] = {3, 4, 6, 3};
  int64_t channels = width;
  for (int stage = 0; stage < 4; ++stage) {
    const int64_t stage_width = width << stage;
    stages_[stage] = nn::Sequential();
    for (int block = 0; block < kBlocks[stage]; ++block) {
      stages_[stage]->push_back(Bottleneck(channels, stage_width, block == 0 && stage > 0 ? 2 : 1));
      channels = stage_width * BottleneckImpl::kExpansion;
    }
    register_module("stage" + std::to_string(stage + 1), stages_[stage]);
  }
  classifier_ = register_module("classifier", nn::Linear(channels, classes));
}

torch::Tensor ResNet50Impl::forward(const torch::Tensor& pictures) {
  PITOT_PHASES(phases);
  PITOT_PHASE(phases, "stem");
  torch::Tensor features = stem_->forward(pictures);
  PITOT_PHASE(phases, "stage 1");
  features = stages_[0]->forward(features);
  PITOT_PHASE(phases, "stage 2");
  features = stages_[1]->forward(features);
  PITOT_PHASE(phases, "stage 3");
  features = stages_[2]->forward(features);
  PITOT_PHASE(phases, "stage 4");
  features = stages_[3]->forward(features);
  PITOT_PHASE(phases, "classifier");
  return classifier_->forward(features.mean({2, 3}));
}

}  // namespace image_server
