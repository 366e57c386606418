// SPDX-License-Identifier: Apache-2.0
#include "graph_decode/decoder.h"

#include <string>

#include "pitot/collect/cuda_events.h"

namespace graph_decode {
namespace {

using gpu_common::Check;

size_t Size(int a, int b = 1) { return static_cast<size_t>(a) * static_cast<size_t>(b); }

}  // namespace

Decoder::DeviceLayer::DeviceLayer(const Shape& shape, const Layer& layer, int number)
    : name(pitot::Intern(("layer " + std::to_string(number)).c_str())),
      attention_norm(layer.attention_norm),
      qkv(layer.qkv),
      output(layer.output),
      mlp_norm(layer.mlp_norm),
      gate_up(layer.gate_up),
      down(layer.down),
      keys(Size(shape.positions, shape.dim)),
      values(Size(shape.positions, shape.dim)) {}

Decoder::Decoder(const Shape& shape, const Weights& weights)
    : shape_(shape),
      tokens_(weights.tokens),
      positions_(weights.positions),
      norm_(weights.norm),
      head_(weights.head),
      x_(Size(shape.dim)),
      normed_(Size(shape.dim)),
      qkv_(Size(3, shape.dim)),
      attended_(Size(shape.dim)),
      gate_up_(Size(2, shape.hidden)),
      inner_(Size(shape.hidden)),
      logits_(Size(shape.vocabulary)),
      state_(1),
      begin_(1),
      made_(1) {
  for (size_t i = 0; i < weights.layers.size(); ++i)
    layers_.push_back(std::make_unique<DeviceLayer>(shape, weights.layers[i], static_cast<int>(i)));
}

Decoder::~Decoder() {
  if (exec_ != nullptr) cudaGraphExecDestroy(exec_);
  if (graph_ != nullptr) cudaGraphDestroy(graph_);
}

void Decoder::Begin(int token) {
  begin_[0] = {token, 0};
  Check(cudaMemcpyAsync(state_.data(), begin_.data(), sizeof(State), cudaMemcpyHostToDevice, stream_.get()),
        "cudaMemcpyAsync");
}

void Decoder::Capture() {
  // Scopes that are open during the capture of a kernel describe its node.
  PITOT_SCOPE("capture");
  Check(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  LaunchEach();
  Check(cudaStreamEndCapture(stream_.get(), &graph_), "cudaStreamEndCapture");
  Check(cudaGraphInstantiate(&exec_, graph_, 0), "cudaGraphInstantiate");
}

void Decoder::Launch() {
  if (exec_ != nullptr) {
    Check(cudaGraphLaunch(exec_, stream_.get()), "cudaGraphLaunch");
  } else {
    LaunchEach();
  }
}

int Decoder::Wait() {
  stream_.Synchronize();
  return made_[0].token;
}

void Decoder::LaunchEach() {
  {
    PITOT_SCOPE("embed");
    LaunchEmbed(state_.data(), tokens_.data(), positions_.data(), x_.data(), shape_.dim, stream_.get());
  }
  for (const auto& layer : layers_) LaunchLayer(*layer);
  PITOT_SCOPE("head");
  LaunchRmsNorm(x_.data(), norm_.data(), normed_.data(), shape_.dim, stream_.get());
  LaunchMatVec(head_.data(), normed_.data(), logits_.data(), shape_.vocabulary, shape_.dim, Into::kSet, stream_.get());
  LaunchNextToken(state_.data(), logits_.data(), shape_.vocabulary, stream_.get());
  Check(cudaGetLastError(), "a kernel");
  Check(cudaMemcpyAsync(made_.data(), state_.data(), sizeof(State), cudaMemcpyDeviceToHost, stream_.get()),
        "cudaMemcpyAsync");
}

void Decoder::LaunchLayer(const DeviceLayer& layer) {
  PITOT_SCOPE_NAMED(layer.name);
  const cudaStream_t stream = stream_.get();
  // Divides replays of the graph if the host asks (CudaEventOptions::graph_scopes).
  const pitot::CudaEventScope divides(stream, layer.name);
  const int dim = shape_.dim, hidden = shape_.hidden;
  {
    PITOT_SCOPE("attention");
    LaunchRmsNorm(x_.data(), layer.attention_norm.data(), normed_.data(), dim, stream);
    LaunchMatVec(layer.qkv.data(), normed_.data(), qkv_.data(), 3 * dim, dim, Into::kSet, stream);
    LaunchAppend(state_.data(), qkv_.data(), layer.keys.data(), layer.values.data(), dim, stream);
    LaunchAttention(state_.data(), qkv_.data(), layer.keys.data(), layer.values.data(), attended_.data(), dim,
                    shape_.heads, shape_.positions, stream);
    LaunchMatVec(layer.output.data(), attended_.data(), x_.data(), dim, dim, Into::kAdd, stream);
  }
  PITOT_SCOPE("mlp");
  LaunchRmsNorm(x_.data(), layer.mlp_norm.data(), normed_.data(), dim, stream);
  LaunchMatVec(layer.gate_up.data(), normed_.data(), gate_up_.data(), 2 * hidden, dim, Into::kSet, stream);
  LaunchSwiGlu(gate_up_.data(), inner_.data(), hidden, stream);
  LaunchMatVec(layer.down.data(), inner_.data(), x_.data(), dim, hidden, Into::kAdd, stream);
}

}  // namespace graph_decode
