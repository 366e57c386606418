// SPDX-License-Identifier: Apache-2.0
//
// vector_add: sends two vectors to a GPU in parts, adds them there, and fetches the sum. In the naive version each copy
// uses pageable memory, and the host waits for it. With --fixed the memory is page-locked and copies are asynchronous.
// Parts then alternate between two streams, so that one is copied while another is added.
#include <algorithm>
#include <memory>
#include <vector>

#include "gpu_common/cuda.h"
#include "gpu_common/sample.h"
#include "vector_add/add.h"

namespace vector_add {
namespace {

using gpu_common::Check;

constexpr size_t kStreams = 2;

class Adder {
 public:
  Adder(size_t size, size_t parts, bool is_fixed)
      : size_(size), parts_(parts), is_fixed_(is_fixed), device_a_(size), device_b_(size), device_sums_(size) {
    if (is_fixed) {
      for (auto& array : pinned_) array = std::make_unique<gpu_common::PinnedArray<float>>(size);
      a_ = pinned_[0]->data(), b_ = pinned_[1]->data(), sums_ = pinned_[2]->data();
    } else {
      for (auto& array : pageable_) array.resize(size);
      a_ = pageable_[0].data(), b_ = pageable_[1].data(), sums_ = pageable_[2].data();
    }
    for (size_t i = 0; i < size; ++i) {
      a_[i] = static_cast<float>(i % 1000) / 8;
      b_[i] = static_cast<float>(i % 777) / 4;
    }
  }

  // `batch` is notified when everything is launched.
  void Run(pitot::Batch& batch) {
    const size_t part_size = (size_ + parts_ - 1) / parts_;
    for (size_t part = 0; part * part_size < size_; ++part) {
      PITOT_SCOPE("part", part);
      const size_t begin = part * part_size, size = std::min(part_size, size_ - begin);
      // The naive version uses the default stream.
      const cudaStream_t stream = is_fixed_ ? streams_[part % kStreams].get() : nullptr;
      Copy(device_a_.data() + begin, a_ + begin, size, cudaMemcpyHostToDevice, stream);
      Copy(device_b_.data() + begin, b_ + begin, size, cudaMemcpyHostToDevice, stream);
      LaunchAdd(device_a_.data() + begin, device_b_.data() + begin, device_sums_.data() + begin, size, stream);
      Check(cudaGetLastError(), "Add");
      Copy(sums_ + begin, device_sums_.data() + begin, size, cudaMemcpyDeviceToHost, stream);
    }
    batch.Submitted();
    PITOT_SCOPE("wait");
    if (is_fixed_) {
      for (const gpu_common::Stream& stream : streams_) stream.Synchronize();
    } else {
      Check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
    }
  }

  void ForgetSums() { std::fill(sums_, sums_ + size_, -1.0f); }
  void CheckSums() const {
    std::vector<float> expected(size_);
    for (size_t i = 0; i < size_; ++i) expected[i] = a_[i] + b_[i];
    gpu_common::CheckClose("sum", sums_, expected.data(), size_, 0);
  }

 private:
  void Copy(float* to, const float* from, size_t size, cudaMemcpyKind kind, cudaStream_t stream) const {
    if (is_fixed_) {
      Check(cudaMemcpyAsync(to, from, size * sizeof(float), kind, stream), "cudaMemcpyAsync");
    } else {
      Check(cudaMemcpy(to, from, size * sizeof(float), kind), "cudaMemcpy");
    }
  }

  const size_t size_, parts_;
  const bool is_fixed_;
  std::unique_ptr<gpu_common::PinnedArray<float>> pinned_[3];
  std::vector<float> pageable_[3];
  float *a_, *b_, *sums_;
  gpu_common::DeviceArray<float> device_a_, device_b_, device_sums_;
  gpu_common::Stream streams_[kStreams];
};

int Main(int argc, char** argv) {
  bool is_fixed = false;
  int elements = 4'000'000, parts = 8;
  gpu_common::Arguments arguments("vector_add", "Adds two vectors on a GPU: pageable against page-locked copies.", 2);
  arguments.Flag("--fixed", "page-locked memory, asynchronous copies, two streams", &is_fixed);
  arguments.Number("--elements", "floats in a vector (default 4000000)", 1, 100'000'000, &elements);
  arguments.Number("--parts", "parts that a vector is sent in (default 8)", 1, 1000, &parts);
  arguments.Parse(argc, argv);

  gpu_common::Recording recording(arguments);
  Adder adder(static_cast<size_t>(elements), static_cast<size_t>(parts), is_fixed);
  const auto serve = [&](int) {
    auto request = pitot::Request::Begin("/add");
    request.SetSize("elements", elements);
    request.SetLabel("memory", is_fixed ? "pinned" : "pageable");
    auto batch = pitot::Batch::Begin("adder");
    batch.Join(request.token());
    {
      PITOT_SCOPE("add");
      adder.Run(batch);
    }
    batch.Finish();
    request.Finish(pitot::Outcome::kOk);
    return "/add";
  };

  // Before the run, because the first request also loads the kernel.
  adder.ForgetSums();
  serve(0);
  adder.CheckSums();
  adder.ForgetSums();
  gpu_common::Serve(arguments, serve);
  const int code = recording.Incident(
      is_fixed ? "vector_add --fixed" : "vector_add",
      "Look at report.txt: 'busy' and the 'rate' of the copies under GPU, 'the longest of ... waits for GPUs'; at\n"
      "trace.pftrace: the scopes 'part' of thread server above the streams of the GPU. Then with and without --fixed.");
  adder.CheckSums();
  return code;
}

}  // namespace
}  // namespace vector_add

int main(int argc, char** argv) {
  return gpu_common::RunSample("vector_add", [&] { return vector_add::Main(argc, argv); });
}
