// SPDX-License-Identifier: Apache-2.0
#include "image_server/classifier.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "pitot/collect/cuda_events.h"
#include "pitot/phase.h"
#include "pitot/trace.h"
#include "server_common/torch_device.h"

namespace image_server {
namespace {

constexpr double kMomentum = 0.1, kEpsilon = 1e-5;
constexpr int64_t kExpansion = 4;  // of a block's output over its width
constexpr int kBlocks[4] = {3, 4, 6, 3};

// As LibTorch's modules initialise theirs. Drawn on the CPU: the same on every device.
at::Tensor RandomWeights(at::IntArrayRef shape, int64_t inputs, c10::Device device) {
  const double bound = 1 / std::sqrt(static_cast<double>(inputs));
  return at::empty(shape).uniform_(-bound, bound).to(device);
}

// A convolution, and behind it the norm of an untrained network: weights and variances of 1, biases and means of 0.
struct Convolution {
  Convolution(int64_t in, int64_t out, int64_t kernel, int64_t step, c10::Device device)
      : weight(RandomWeights({out, in, kernel, kernel}, in * kernel * kernel, device)),
        ones(at::ones({out}, device)),
        zeros(at::zeros({out}, device)),
        stride(step),
        padding(kernel / 2) {}

  at::Tensor operator()(const at::Tensor& x) const {
    return at::batch_norm(at::conv2d(x, weight, {}, stride, padding), ones, zeros, zeros, ones, /*training=*/false,
                          kMomentum, kEpsilon, /*cudnn_enabled=*/true);
  }

  at::Tensor weight, ones, zeros;
  int64_t stride, padding;
};

// 1x1 down, 3x3, 1x1 up to four times the width, and a shortcut around them.
struct Bottleneck {
  Bottleneck(int64_t in, int64_t width, int64_t stride, c10::Device device)
      : down(in, width, 1, 1, device),
        middle(width, width, 3, stride, device),
        up(width, width * kExpansion, 1, 1, device) {
    if (stride != 1 || in != width * kExpansion) shortcut.emplace(in, width * kExpansion, 1, stride, device);
  }

  at::Tensor operator()(const at::Tensor& x) const {
    at::Tensor output = up(middle(down(x).relu_()).relu_());
    output += shortcut ? (*shortcut)(x) : x;
    return output.relu_();
  }

  Convolution down, middle, up;
  std::optional<Convolution> shortcut;  // nothing where input and output have the same shape
};

at::Tensor RunAll(const std::vector<Bottleneck>& blocks, at::Tensor x) {
  for (const Bottleneck& block : blocks) x = block(x);
  return x;
}

}  // namespace

bool UsesCuda(const ClassifierOptions& options) { return server_common::ChooseDevice(options.device) == c10::kCUDA; }

// ResNet-50 (He et al., 2015, with the stride in the 3x3 convolution), with random weights. `width` scales every layer:
// 64 is the published network, 16 serves over a hundred small pictures a second on two CPU cores.
struct Classifier::Network {
  Network(int64_t width, c10::Device on) : device(on), stem(3, width, 7, 2, on) {
    int64_t channels = width;
    for (int stage = 0; stage < 4; ++stage) {
      for (int block = 0; block < kBlocks[stage]; ++block) {
        stages[stage].emplace_back(channels, width << stage, block == 0 && stage > 0 ? 2 : 1, on);
        channels = (width << stage) * kExpansion;
      }
    }
    last_weight = RandomWeights({kClasses, channels}, channels, on);
    last_bias = RandomWeights({kClasses}, channels, on);
  }

  // [n, 3, side, side] to [n, classes], not yet softmaxed.
  at::Tensor Forward(const at::Tensor& pictures) const {
    PITOT_PHASES(phases);
    PITOT_PHASE(phases, "stem");
    at::Tensor features = at::max_pool2d(stem(pictures).relu_(), 3, 2, 1);
    PITOT_PHASE(phases, "stage 1");
    features = RunAll(stages[0], features);
    PITOT_PHASE(phases, "stage 2");
    features = RunAll(stages[1], features);
    PITOT_PHASE(phases, "stage 3");
    features = RunAll(stages[2], features);
    PITOT_PHASE(phases, "stage 4");
    features = RunAll(stages[3], features);
    PITOT_PHASE(phases, "classifier");
    return at::linear(features.mean({2, 3}), last_weight, last_bias);
  }

  const c10::Device device;
  const Convolution stem;
  std::vector<Bottleneck> stages[4];
  at::Tensor last_weight, last_bias;
};

Classifier::Classifier(const ClassifierOptions& options) : options_(options) {
  at::manual_seed(options.seed);
  network_ = std::make_unique<Network>(options.width, server_common::ChooseDevice(options.device));
  name_ = "resnet50 width " + std::to_string(options.width) + " side " + std::to_string(options.side) + " " +
          network_->device.str();
}

Classifier::~Classifier() = default;

void Classifier::WarmUp(size_t max_batch) {
  const Planes grey(size_t{3} * static_cast<size_t>(options_.side) * static_cast<size_t>(options_.side));
  std::vector<Job> jobs;
  while (jobs.size() < max_batch) {
    jobs.push_back({.input = grey});
    pitot::Batch batch;
    Run(jobs, batch);
  }
}

std::vector<Prediction> Classifier::Run(std::span<const Job> jobs, pitot::Batch& batch) {
  server_common::UseThreads(options_.threads);
  const c10::InferenceMode inference;
  const auto count = static_cast<int64_t>(jobs.size());

  at::Tensor pictures;
  {
    PITOT_SCOPE("pack", count);
    pictures = at::empty({count, 3, options_.side, options_.side});
    float* to = pictures.data_ptr<float>();
    for (const Job& job : jobs) {
      std::memcpy(to, job.input.data(), job.input.size() * sizeof(float));
      to += job.input.size();
    }
    pictures = pictures.to(network_->device);
  }

  at::Tensor scores;
  {
    PITOT_SCOPE("forward", count);
    // How long the GPU works for it, whether or not its kernels are recorded. LibTorch's stream is the default one.
    std::optional<pitot::CudaEventScope> on_gpu;
    if (network_->device.is_cuda()) on_gpu.emplace(nullptr, "forward");
    scores = network_->Forward(pictures);
  }
  batch.Submitted();  // a GPU has its work, and has not done it: the copies below wait for it

  PITOT_SCOPE("softmax and top 5", count);
  const auto [probabilities, classes] = scores.softmax(1).topk(kTop);
  const at::Tensor host_probabilities = probabilities.cpu(), host_classes = classes.cpu();
  std::vector<Prediction> predictions(jobs.size());
  const float* probability = host_probabilities.data_ptr<float>();
  const int64_t* class_index = host_classes.data_ptr<int64_t>();
  for (Prediction& prediction : predictions) {
    for (size_t i = 0; i < kTop; ++i) prediction.push_back({*class_index++, *probability++});
  }
  return predictions;
}

}  // namespace image_server
