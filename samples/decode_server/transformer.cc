// SPDX-License-Identifier: Apache-2.0
#include "decode_server/transformer.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <stdexcept>

#include "pitot/collect/cuda_events.h"
#include "pitot/trace.h"
#include "server_common/torch_device.h"

namespace decode_server {
namespace {

constexpr double kWeightScale = 0.02;
constexpr double kEpsilon = 1e-5;

struct Norm {
  at::Tensor weight, bias;
  at::Tensor operator()(const at::Tensor& x) const { return at::layer_norm(x, {x.size(-1)}, weight, bias, kEpsilon); }
};

struct Linear {
  at::Tensor weight, bias;
  at::Tensor operator()(const at::Tensor& x) const { return at::linear(x, weight, bias); }
};

// Attention and MLP, each behind a norm and added to its input; and the memory of attention.
struct Layer {
  pitot::Name name;
  Norm attention_norm;
  Linear qkv, attention_output;
  Norm mlp_norm;
  Linear up, down;
  at::Tensor keys, values;  // [slot, head, position, width of a head]
};

// A token by its score; the same for the same seed and position.
int32_t Draw(const at::Tensor& scores, const Sampling& sampling, size_t position) {
  const at::Tensor weights = (scores / sampling.temperature).softmax(0).contiguous();
  const float* begin = weights.data_ptr<float>();
  std::mt19937_64 random(sampling.seed * 1'000'003 + position);
  std::discrete_distribution<int32_t> draw(begin, begin + weights.numel());
  return draw(random);
}

at::Tensor Numbers(const std::vector<int64_t>& numbers, c10::Device device) {
  return at::tensor(numbers, at::TensorOptions().dtype(at::kLong)).to(device);
}

}  // namespace

bool UsesCuda(const TransformerOptions& options) { return server_common::ChooseDevice(options.device) == c10::kCUDA; }

struct Transformer::Network {
  explicit Network(const TransformerOptions& of);

  // Each returns a row of features for each of its slices, of the last token.
  at::Tensor Prefill(const Slice& slice);
  at::Tensor Decode(std::span<const Slice> slices);
  at::Tensor Scores(const at::Tensor& features) const { return at::linear(final_norm(features), token_embedding); }

  // `attend` gets the layer and its queries, keys and values: [token, head, width of a head].
  template <class Attend> at::Tensor RunLayers(at::Tensor x, const Attend& attend);

  const TransformerOptions options;
  const c10::Device device;
  const at::ScalarType type;
  at::Tensor token_embedding;  // [vocabulary, width], also the output's weights
  at::Tensor position_embedding;
  std::vector<Layer> layers;
  Norm final_norm;
};

Transformer::Network::Network(const TransformerOptions& of)
    : options(of), device(server_common::ChooseDevice(of.device)), type(device.is_cuda() ? at::kHalf : at::kFloat) {
  if (of.width % of.heads != 0) throw std::runtime_error("--width is no multiple of --heads");
  at::manual_seed(of.seed);
  const auto random = [&](at::IntArrayRef shape) { return (at::randn(shape) * kWeightScale).to(device, type); };
  const auto constant = [&](int64_t size, double value) {
    return at::full({size}, value, at::TensorOptions().device(device).dtype(type));
  };
  const auto norm = [&] { return Norm{constant(of.width, 1), constant(of.width, 0)}; };
  const auto linear = [&](int64_t in, int64_t out) { return Linear{random({out, in}), constant(out, 0)}; };
  const auto cache = [&] {
    return at::zeros({of.slots, of.heads, of.context, of.width / of.heads},
                     at::TensorOptions().device(device).dtype(type));
  };
  token_embedding = random({of.vocabulary, of.width});
  position_embedding = random({of.context, of.width});
  for (int64_t i = 0; i < of.layers; ++i) {
    layers.push_back({pitot::Intern(("layer " + std::to_string(i)).c_str()), norm(), linear(of.width, 3 * of.width),
                      linear(of.width, of.width), norm(), linear(of.width, 4 * of.width),
                      linear(4 * of.width, of.width), cache(), cache()});
  }
  final_norm = norm();
}

template <class Attend> at::Tensor Transformer::Network::RunLayers(at::Tensor x, const Attend& attend) {
  const int64_t tokens = x.size(0), head_width = options.width / options.heads;
  for (Layer& layer : layers) {
    PITOT_SCOPE_NAMED(layer.name);
    {
      PITOT_SCOPE("attention");
      const at::Tensor qkv = layer.qkv(layer.attention_norm(x)).view({tokens, 3, options.heads, head_width});
      const at::Tensor queries = qkv.select(1, 0) / std::sqrt(static_cast<double>(head_width));
      const at::Tensor attended = attend(layer, queries, qkv.select(1, 1), qkv.select(1, 2));
      x = x + layer.attention_output(attended.reshape({tokens, options.width}));
    }
    PITOT_SCOPE("mlp");
    x = x + layer.down(at::gelu(layer.up(layer.mlp_norm(x))));
  }
  return x;
}

at::Tensor Transformer::Network::Prefill(const Slice& slice) {
  const auto count = static_cast<int64_t>(slice.tokens.size()), before = static_cast<int64_t>(slice.position);
  const auto slot = static_cast<int64_t>(slice.slot), after = before + count;
  PITOT_SCOPE("prefill", count, before);
  const at::Tensor ids = Numbers({slice.tokens.begin(), slice.tokens.end()}, device);
  const at::Tensor x = token_embedding.index_select(0, ids) + position_embedding.narrow(0, before, count);
  // A token sees itself and the tokens before it.
  const at::Tensor hidden =
      at::ones({count, after}, at::TensorOptions().device(device).dtype(at::kBool)).triu(before + 1);

  const at::Tensor features =
      RunLayers(x, [&](Layer& layer, const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values) {
        layer.keys.select(0, slot).narrow(1, before, count).copy_(keys.transpose(0, 1));
        layer.values.select(0, slot).narrow(1, before, count).copy_(values.transpose(0, 1));
        const at::Tensor all_keys = layer.keys.select(0, slot).narrow(1, 0, after);
        const at::Tensor all_values = layer.values.select(0, slot).narrow(1, 0, after);
        at::Tensor scores = at::matmul(queries.transpose(0, 1), all_keys.transpose(1, 2));
        scores.masked_fill_(hidden, -std::numeric_limits<double>::infinity());
        return at::matmul(scores.softmax(-1), all_values).transpose(0, 1);
      });
  return features.narrow(0, count - 1, 1);
}

// Attention takes in the whole of the KV cache up to the last slot and the longest request, and masks what is not the
// request's own: few large operators, although requests differ in length.
at::Tensor Transformer::Network::Decode(std::span<const Slice> slices) {
  const auto count = static_cast<int64_t>(slices.size());
  std::vector<int64_t> ids, positions, slots;
  for (const Slice& slice : slices) {
    ids.push_back(slice.tokens[0]);
    positions.push_back(static_cast<int64_t>(slice.position));
    slots.push_back(static_cast<int64_t>(slice.slot));
  }
  const int64_t slot_count = *std::max_element(slots.begin(), slots.end()) + 1;
  const int64_t longest = *std::max_element(positions.begin(), positions.end()) + 1;
  PITOT_SCOPE("decode", count, longest);
  const at::Tensor at_slots = Numbers(slots, device), at_positions = Numbers(positions, device);
  const at::Tensor x =
      token_embedding.index_select(0, Numbers(ids, device)) + position_embedding.index_select(0, at_positions);
  // An unused slot shows its first position, so that it has a softmax.
  const at::Tensor last = at::zeros({slot_count}, at_positions.options()).index_copy(0, at_slots, at_positions);
  const at::Tensor hidden =
      (at::arange(longest, at_positions.options()).unsqueeze(0) > last.unsqueeze(1)).view({slot_count, 1, 1, longest});

  return RunLayers(x, [&](Layer& layer, const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values) {
    layer.keys.index_put_({at_slots, at::indexing::Slice(), at_positions}, keys);
    layer.values.index_put_({at_slots, at::indexing::Slice(), at_positions}, values);
    const at::Tensor by_slot = at::zeros({slot_count, queries.size(1), queries.size(2)}, queries.options())
                                   .index_copy(0, at_slots, queries)
                                   .unsqueeze(2);
    const at::Tensor all_keys = layer.keys.narrow(0, 0, slot_count).narrow(2, 0, longest);
    const at::Tensor all_values = layer.values.narrow(0, 0, slot_count).narrow(2, 0, longest);
    at::Tensor scores = at::matmul(by_slot, all_keys.transpose(2, 3));
    scores.masked_fill_(hidden, -std::numeric_limits<double>::infinity());
    return at::matmul(scores.softmax(-1), all_values).index_select(0, at_slots);
  });
}

Transformer::Transformer(const TransformerOptions& options)
    : options_(options), network_(std::make_unique<Network>(options)) {
  name_ = "gpt " + std::to_string(options.layers) + " layers width " + std::to_string(options.width) + " " +
          network_->device.str();
}

Transformer::~Transformer() = default;

void Transformer::WarmUp() {
  pitot::Batch batch;
  const std::vector<int32_t> prompt(static_cast<size_t>(std::min<int64_t>(options_.context, 64)));
  for (size_t count = 1; count <= static_cast<size_t>(options_.slots); ++count) {
    std::vector<Slice> slices;
    for (size_t slot = 0; slot < count; ++slot) slices.push_back({slot, 0, std::span(prompt).first(1), true, {}});
    Run(slices, batch);
    slices[0].tokens = prompt;
    Run(slices, batch);
  }
}

std::vector<int32_t> Transformer::Run(std::span<const Slice> slices, pitot::Batch& batch) {
  server_common::UseThreads(options_.threads);
  const c10::InferenceMode inference;
  std::vector<at::Tensor> features;
  std::vector<size_t> order;  // their slices
  std::vector<Slice> single;
  at::Tensor scores, best;
  {
    // How long the GPU works for it, whether or not its kernels are recorded. LibTorch's stream is the default one.
    std::optional<pitot::CudaEventScope> on_gpu;
    if (network_->device.is_cuda()) on_gpu.emplace(nullptr, "iteration");
    for (size_t i = 0; i < slices.size(); ++i) {
      if (slices[i].tokens.size() == 1) continue;
      at::Tensor last = network_->Prefill(slices[i]);
      if (!slices[i].wants_token) continue;
      features.push_back(std::move(last));
      order.push_back(i);
    }
    for (size_t i = 0; i < slices.size(); ++i) {
      if (slices[i].tokens.size() != 1) continue;
      single.push_back(slices[i]);
      order.push_back(i);
    }
    if (!single.empty()) features.push_back(network_->Decode(single));
    if (!features.empty()) {
      PITOT_SCOPE("head");
      scores = network_->Scores(at::cat(features));
      best = scores.argmax(1);
    }
  }
  batch.Submitted();  // a GPU has its work, and has not done it: the copies below wait for it
  std::vector<int32_t> tokens(slices.size(), -1);
  if (features.empty()) return tokens;

  PITOT_SCOPE("sample");
  const bool is_greedy =
      std::all_of(order.begin(), order.end(), [&](size_t i) { return slices[i].sampling.temperature <= 0; });
  const at::Tensor best_on_host = best.cpu();
  const at::Tensor scores_on_host = is_greedy ? at::Tensor() : scores.to(at::kCPU, at::kFloat);
  for (size_t row = 0; row < order.size(); ++row) {
    const Slice& slice = slices[order[row]];
    const auto at_row = static_cast<int64_t>(row);
    tokens[order[row]] = slice.sampling.temperature <= 0 ? static_cast<int32_t>(best_on_host.data_ptr<int64_t>()[row])
                                                         : Draw(scores_on_host.select(0, at_row), slice.sampling,
                                                                slice.position + slice.tokens.size());
  }
  return tokens;
}

}  // namespace decode_server
