// SPDX-License-Identifier: Apache-2.0
//
// Decodes one sequence on a GPU, one token per step: launch by launch, or by replaying a step captured as a CUDA graph.
#ifndef PITOT_SAMPLES_GRAPH_DECODE_DECODER_H_
#define PITOT_SAMPLES_GRAPH_DECODE_DECODER_H_

#include <memory>
#include <vector>

#include "gpu_common/cuda.h"
#include "graph_decode/kernels.h"
#include "graph_decode/weights.h"
#include "pitot/trace.h"

namespace graph_decode {

class Decoder {
 public:
  Decoder(const Shape& shape, const Weights& weights);
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Begins a sequence with `token`; at most Shape::positions steps follow.
  void Begin(int token);
  // Captures a step; from now on Launch replays it.
  void Capture();
  // Launches a step; Wait returns its token.
  void Launch();
  int Wait();
  // The logits of the previous step.
  std::vector<float> Logits() const { return logits_.ToHost(); }

 private:
  using Array = gpu_common::DeviceArray<float>;
  struct DeviceLayer {
    DeviceLayer(const Shape& shape, const Layer& layer, int number);
    pitot::Name name;  // "layer 0"
    Array attention_norm, qkv, output, mlp_norm, gate_up, down;
    Array keys, values;
  };
  void LaunchEach();
  void LaunchLayer(const DeviceLayer& layer);

  const Shape shape_;
  const gpu_common::Stream stream_;
  const Array tokens_, positions_, norm_, head_;
  std::vector<std::unique_ptr<DeviceLayer>> layers_;
  const Array x_, normed_, qkv_, attended_, gate_up_, inner_, logits_;
  const gpu_common::DeviceArray<State> state_;
  const gpu_common::PinnedArray<State> begin_, made_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

}  // namespace graph_decode

#endif  // PITOT_SAMPLES_GRAPH_DECODE_DECODER_H_
