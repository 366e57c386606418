// SPDX-License-Identifier: Apache-2.0
#include "graph_decode/weights.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace graph_decode {
namespace {

using Floats = std::vector<float>;

Floats MatVec(const Floats& matrix, const Floats& x) {
  Floats out(matrix.size() / x.size());
  for (size_t row = 0; row < out.size(); ++row) {
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i)
      sum += static_cast<double>(matrix[row * x.size() + i]) * static_cast<double>(x[i]);
    out[row] = static_cast<float>(sum);
  }
  return out;
}

Floats RmsNorm(const Floats& x, const Floats& weights) {
  double squares = 0;
  for (const float value : x) squares += static_cast<double>(value) * static_cast<double>(value);
  const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + 1e-5);
  Floats out(x.size());
  for (size_t i = 0; i < x.size(); ++i) out[i] = static_cast<float>(static_cast<double>(x[i]) * scale) * weights[i];
  return out;
}

void Add(const Floats& more, Floats* x) {
  for (size_t i = 0; i < x->size(); ++i) (*x)[i] += more[i];
}

// Attention of the newest row, whose query `qkv` begins with, over all rows.
Floats Attention(const Floats& qkv, const Floats& keys, const Floats& values, size_t dim, size_t heads) {
  const size_t head_dim = dim / heads, rows = keys.size() / dim;
  Floats out(dim);
  for (size_t head = 0; head < dim; head += head_dim) {
    std::vector<double> scores(rows);
    for (size_t row = 0; row < rows; ++row) {
      for (size_t i = head; i < head + head_dim; ++i)
        scores[row] += static_cast<double>(qkv[i]) * static_cast<double>(keys[row * dim + i]);
      scores[row] /= std::sqrt(static_cast<double>(head_dim));
    }
    const double most = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - most);
    for (size_t i = head; i < head + head_dim; ++i) {
      double value = 0;
      for (size_t row = 0; row < rows; ++row) value += scores[row] * static_cast<double>(values[row * dim + i]);
      out[i] = static_cast<float>(value / sum);
    }
  }
  return out;
}

}  // namespace

Weights MakeWeights(const Shape& shape) {
  std::minstd_rand random(1);
  const auto make = [&](int rows, int columns, float scale) {
    std::uniform_real_distribution<float> any(-scale, scale);
    Floats values(static_cast<size_t>(rows) * static_cast<size_t>(columns));
    for (float& value : values) value = any(random);
    return values;
  };
  // Keeps a sum of products about as large as the input.
  const auto matrix = [&](int rows, int columns) {
    return make(rows, columns, std::sqrt(3.0f / static_cast<float>(columns)));
  };
  const Floats ones(static_cast<size_t>(shape.dim), 1.0f);
  Weights weights;
  weights.tokens = make(shape.vocabulary, shape.dim, 1);
  weights.positions = make(shape.positions, shape.dim, 1);
  weights.norm = ones;
  weights.head = matrix(shape.vocabulary, shape.dim);
  for (int i = 0; i < shape.layers; ++i) {
    weights.layers.push_back({ones, matrix(3 * shape.dim, shape.dim), matrix(shape.dim, shape.dim), ones,
                              matrix(2 * shape.hidden, shape.dim), matrix(shape.dim, shape.hidden)});
  }
  return weights;
}

Reference::Reference(const Shape& shape, const Weights& weights)
    : shape_(shape), weights_(weights), keys_(weights.layers.size()), values_(weights.layers.size()) {}

Floats Reference::Step(int token) {
  const auto dim = static_cast<size_t>(shape_.dim), hidden = static_cast<size_t>(shape_.hidden);
  Floats x(dim);
  for (size_t i = 0; i < dim; ++i)
    x[i] = weights_.tokens[static_cast<size_t>(token) * dim + i] + weights_.positions[position_ * dim + i];
  for (size_t layer = 0; layer < weights_.layers.size(); ++layer) {
    const Layer& of = weights_.layers[layer];
    const Floats qkv = MatVec(of.qkv, RmsNorm(x, of.attention_norm));
    const auto part = [&](size_t i) { return qkv.begin() + static_cast<std::ptrdiff_t>(i * dim); };
    keys_[layer].insert(keys_[layer].end(), part(1), part(2));
    values_[layer].insert(values_[layer].end(), part(2), part(3));
    Add(MatVec(of.output, Attention(qkv, keys_[layer], values_[layer], dim, static_cast<size_t>(shape_.heads))), &x);
    const Floats gate_up = MatVec(of.gate_up, RmsNorm(x, of.mlp_norm));
    Floats inner(hidden);
    for (size_t i = 0; i < hidden; ++i) inner[i] = gate_up[i] / (1 + std::exp(-gate_up[i])) * gate_up[hidden + i];
    Add(MatVec(of.down, inner), &x);
  }
  ++position_;
  return MatVec(weights_.head, RmsNorm(x, weights_.norm));
}

}  // namespace graph_decode
