// SPDX-License-Identifier: Apache-2.0
//
// small_copies: a request brings many small features, each in its own memory, and a GPU scores them. In the naive
// version each is copied to the GPU separately. With --fixed they are first packed into one buffer, which is copied
// once.
#include <cstring>
#include <memory>
#include <vector>

#include "gpu_common/cuda.h"
#include "gpu_common/sample.h"
#include "small_copies/dot.h"

namespace small_copies {
namespace {

using gpu_common::Check;

class Scorer {
 public:
  Scorer(int count, int size, bool is_fixed)
      : count_(static_cast<size_t>(count)),
        size_(static_cast<size_t>(size)),
        is_fixed_(is_fixed),
        arena_(2 * count_ * size_),
        packed_(count_ * size_),
        scores_(count_),
        weights_(Weights()),
        device_weights_(weights_),
        device_features_(count_ * size_),
        device_scores_(count_) {}

  // Stores the features as a parser would: not next to each other. All memory is page-locked, so that the versions
  // differ only in the number of copies.
  void Receive(int number) {
    for (size_t i = 0; i < count_; ++i) {
      float* const feature = Feature(i);
      for (size_t j = 0; j < size_; ++j)
        feature[j] = static_cast<float>((i + j + static_cast<size_t>(number)) % 64) / 64;
    }
  }

  // `batch` is notified when everything is launched.
  void Run(pitot::Batch& batch) {
    {
      const size_t copies = is_fixed_ ? 1 : count_;
      PITOT_SCOPE("send", copies);
      if (is_fixed_) {
        {
          PITOT_SCOPE("pack");
          for (size_t i = 0; i < count_; ++i)
            std::memcpy(packed_.data() + i * size_, Feature(i), size_ * sizeof(float));
        }
        Send(device_features_.data(), packed_.data(), count_ * size_);
      } else {
        for (size_t i = 0; i < count_; ++i) Send(device_features_.data() + i * size_, Feature(i), size_);
      }
    }
    LaunchDot(device_features_.data(), device_weights_.data(), device_scores_.data(), static_cast<int>(count_),
              static_cast<int>(size_), stream_.get());
    Check(cudaGetLastError(), "Dot");
    Check(cudaMemcpyAsync(scores_.data(), device_scores_.data(), count_ * sizeof(float), cudaMemcpyDeviceToHost,
                          stream_.get()),
          "cudaMemcpyAsync");
    batch.Submitted();
    PITOT_SCOPE("wait");
    stream_.Synchronize();
  }

  void CheckScores() const {
    std::vector<float> expected(count_);
    for (size_t i = 0; i < count_; ++i) {
      double sum = 0;
      for (size_t j = 0; j < size_; ++j) sum += static_cast<double>(Feature(i)[j]) * static_cast<double>(weights_[j]);
      expected[i] = static_cast<float>(sum);
    }
    gpu_common::CheckClose("score", scores_.data(), expected.data(), count_, 1e-4f);
  }

 private:
  std::vector<float> Weights() const {
    std::vector<float> weights(size_);
    for (size_t i = 0; i < size_; ++i) weights[i] = static_cast<float>(i % 7) - 3;
    return weights;
  }
  // Every other place is left free.
  float* Feature(size_t i) const { return arena_.data() + 2 * i * size_; }
  void Send(float* to, const float* from, size_t size) const {
    Check(cudaMemcpyAsync(to, from, size * sizeof(float), cudaMemcpyHostToDevice, stream_.get()), "cudaMemcpyAsync");
  }

  const size_t count_, size_;
  const bool is_fixed_;
  const gpu_common::PinnedArray<float> arena_, packed_, scores_;
  const std::vector<float> weights_;
  const gpu_common::DeviceArray<float> device_weights_, device_features_, device_scores_;
  const gpu_common::Stream stream_;
};

int Main(int argc, char** argv) {
  bool is_fixed = false;
  int features = 256, floats = 64;
  gpu_common::Arguments arguments("small_copies", "Scores small features on a GPU: many copies against one.", 0.5);
  arguments.Flag("--fixed", "packs the features of a request and copies them at once", &is_fixed);
  arguments.Number("--features", "of a request (default 256)", 1, 100'000, &features);
  arguments.Number("--floats", "of a feature (default 64)", 1, 10'000, &floats);
  arguments.Parse(argc, argv);

  gpu_common::Recording recording(arguments);
  Scorer scorer(features, floats, is_fixed);
  const auto serve = [&](int number) {
    auto request = pitot::Request::Begin("/score");
    request.SetSize("features", features);
    request.SetLabel("copies", is_fixed ? "one" : "many");
    request.Stage("receive");
    {
      PITOT_SCOPE("receive");
      scorer.Receive(number);
    }
    request.Stage("score");
    auto batch = pitot::Batch::Begin("scorer");
    batch.Join(request.token());
    {
      PITOT_SCOPE("score");
      scorer.Run(batch);
    }
    batch.Finish();
    request.Finish(pitot::Outcome::kOk);
    return "/score";
  };

  // Before the run, because the first request also loads the kernel.
  serve(0);
  scorer.CheckScores();
  gpu_common::Serve(arguments, serve);
  const int code = recording.Incident(
      is_fixed ? "small_copies --fixed" : "small_copies",
      "Look at report.txt: 'count' and 'rate' of the copies under GPU, 'send' among the scopes of a request; at\n"
      "trace.pftrace: the calls cudaMemcpyAsync in scope 'send'. Then with and without --fixed.");
  scorer.CheckScores();
  return code;
}

}  // namespace
}  // namespace small_copies

int main(int argc, char** argv) {
  return gpu_common::RunSample("small_copies", [&] { return small_copies::Main(argc, argv); });
}
