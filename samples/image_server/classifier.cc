// SPDX-License-Identifier: Apache-2.0
#include "image_server/classifier.h"

#include <cstring>
#include <optional>

#include "image_server/resnet.h"
#include "pitot/collect/cuda_events.h"
#include "pitot/trace.h"
#include "server_common/torch_device.h"

namespace image_server {

using server_common::ChooseDevice;
using server_common::UseThreads;

bool UsesCuda(const ClassifierOptions& options) { return ChooseDevice(options.device) == torch::kCUDA; }

struct Classifier::Network {
  torch::Device device;
  ResNet50 net;
};

Classifier::Classifier(const ClassifierOptions& options) : options_(options) {
  torch::manual_seed(options.seed);
  network_.reset(new Network{ChooseDevice(options.device), ResNet50(options.width, kClasses)});
  network_->net->eval();
  network_->net->to(network_->device);
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
  UseThreads(options_.threads);
  const c10::InferenceMode inference;
  const auto count = static_cast<int64_t>(jobs.size());

  torch::Tensor pictures;
  {
    PITOT_SCOPE("pack", count);
    pictures = torch::empty({count, 3, options_.side, options_.side});
    float* to = pictures.data_ptr<float>();
    for (const Job& job : jobs) {
      std::memcpy(to, job.input.data(), job.input.size() * sizeof(float));
      to += job.input.size();
    }
    pictures = pictures.to(network_->device);
  }

  torch::Tensor scores;
  {
    PITOT_SCOPE("forward", count);
    // How long the GPU works for it, whether or not its kernels are recorded. LibTorch's stream is the default one.
    std::optional<pitot::CudaEventScope> on_gpu;
    if (network_->device.is_cuda()) on_gpu.emplace(nullptr, "forward");
    scores = network_->net->forward(pictures);
  }
  batch.Submitted();  // on a GPU the work has only been launched: what follows waits for it

  PITOT_SCOPE("softmax and top 5", count);
  const auto [probabilities, classes] = scores.softmax(1).topk(kTop);
  const torch::Tensor host_probabilities = probabilities.cpu(), host_classes = classes.cpu();
  std::vector<Prediction> predictions(jobs.size());
  const float* probability = host_probabilities.data_ptr<float>();
  const int64_t* class_index = host_classes.data_ptr<int64_t>();
  for (Prediction& prediction : predictions) {
    for (size_t i = 0; i < kTop; ++i) prediction.push_back({*class_index++, *probability++});
  }
  return predictions;
}

}  // namespace image_server
