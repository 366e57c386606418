// SPDX-License-Identifier: Apache-2.0
//
// The network on its device: takes the pictures of a batch, returns the likeliest classes of each. Only its
// source includes LibTorch.
#ifndef SAMPLES_IMAGE_SERVER_CLASSIFIER_H_
#define SAMPLES_IMAGE_SERVER_CLASSIFIER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "image_server/batcher.h"
#include "pitot/request.h"

namespace image_server {

struct ClassifierOptions {
  int64_t width = 16;           // of the network's first layer; 64 is ResNet-50 as published
  int side = 64;                // pictures are scaled to side x side
  uint64_t seed = 1;            // of the weights
  std::string device = "auto";  // auto, cpu, cuda
  // CPU threads of one forward pass. Several workers with one thread each beat one after another with all of them.
  int threads = 1;
};

// Whether the network will run on a GPU. Throws if the device is not there. Makes no CUDA context.
bool UsesCuda(const ClassifierOptions& options);

class Classifier {
 public:
  static constexpr int64_t kClasses = 1000;
  static constexpr size_t kTop = 5;

  // Builds the network. Throws std::runtime_error when the device is not there.
  explicit Classifier(const ClassifierOptions& options);
  ~Classifier();

  // Runs once for each batch size up to `max_batch`, so that no request pays for LibTorch's first time.
  void WarmUp(size_t max_batch);

  // As Batcher::Model. Threads: any, also concurrently.
  std::vector<Prediction> Run(std::span<const Job> jobs, pitot::Batch& batch);

  // "resnet50 width 16 side 64 cpu".
  const std::string& name() const { return name_; }

 private:
  struct Network;
  const ClassifierOptions options_;
  std::unique_ptr<Network> network_;
  std::string name_;
};

}  // namespace image_server

#endif  // SAMPLES_IMAGE_SERVER_CLASSIFIER_H_
