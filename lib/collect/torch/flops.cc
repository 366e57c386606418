// SPDX-License-Identifier: Apache-2.0
#include "collect/torch/flops.h"

#include <algorithm>

namespace pitot::libtorch {
namespace {

// A product; 0 after a negative factor, or if it is too large.
class Product {
 public:
  Product& operator*=(int64_t factor) {
    is_well_ = is_well_ && factor >= 0 && !__builtin_mul_overflow(value_, static_cast<uint64_t>(factor), &value_);
    return *this;
  }
  Product& TimesAll(const Sizes& sizes, size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) *this *= sizes[i];
    return *this;
  }
  uint64_t value() const { return is_well_ ? value_ : 0; }

 private:
  uint64_t value_ = 1;
  bool is_well_ = true;
};

uint64_t Matmul(const Sizes& a, const Sizes& b, size_t rank) {
  if (a.count != rank || b.count != rank || a[rank - 1] != b[rank - 2]) return 0;
  Product product;
  product *= 2;
  return (product.TimesAll(a, 0, rank) *= b[rank - 1]).value();
}

uint64_t Attention(const Sizes& query, const Sizes& key, const Sizes& value) {
  const size_t rank = query.count;
  if (rank < 2 || key.count != rank || value.count != rank) return 0;
  Product scores, output;
  scores *= 2;
  scores.TimesAll(query, 0, rank) *= key[rank - 2];
  output *= 2;
  (output.TimesAll(query, 0, rank - 1) *= value[rank - 2]) *= value[rank - 1];
  uint64_t sum;
  return __builtin_add_overflow(scores.value(), output.value(), &sum) ? 0 : sum;
}

int64_t Each(const Sizes& sizes, size_t i, int64_t otherwise) {
  if (sizes.count == 0) return otherwise;
  return sizes[std::min(i, sizes.count - 1)];
}

struct Known {
  std::string_view op;
  FlopFormula formula;
};
constexpr Known kKnown[] = {
    {"aten::mm", FlopFormula::kMatmul},
    {"aten::_scaled_mm", FlopFormula::kMatmul},
    {"aten::addmm", FlopFormula::kAddMatmul},
    {"aten::bmm", FlopFormula::kBatchMatmul},
    {"aten::baddbmm", FlopFormula::kAddBatchMatmul},
    {"aten::convolution", FlopFormula::kConvolution},
    {"aten::_convolution", FlopFormula::kConvolution},
    {"aten::_scaled_dot_product_flash_attention", FlopFormula::kAttention},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", FlopFormula::kAttention},
    {"aten::_scaled_dot_product_efficient_attention", FlopFormula::kAttention},
    {"aten::_scaled_dot_product_cudnn_attention", FlopFormula::kAttention},
};

}  // namespace

FlopFormula FormulaOf(std::string_view op) noexcept {
  for (const Known& known : kKnown) {
    if (known.op == op) return known.formula;
  }
  return FlopFormula::kNone;
}

uint64_t Flops(FlopFormula formula, const Sizes* tensors, size_t count) noexcept {
  switch (formula) {
    case FlopFormula::kMatmul:
      return count >= 2 ? Matmul(tensors[0], tensors[1], 2) : 0;
    case FlopFormula::kAddMatmul:
      return count >= 3 ? Matmul(tensors[1], tensors[2], 2) : 0;
    case FlopFormula::kBatchMatmul:
      return count >= 2 && tensors[0].count == 3 && tensors[1].count == 3 && tensors[0][0] == tensors[1][0]
                 ? Matmul(tensors[0], tensors[1], 3)
                 : 0;
    case FlopFormula::kAddBatchMatmul:
      return count >= 3 ? Flops(FlopFormula::kBatchMatmul, tensors + 1, 2) : 0;
    case FlopFormula::kAttention:
      return count >= 3 ? Attention(tensors[0], tensors[1], tensors[2]) : 0;
    case FlopFormula::kConvolution:  // needs its parameters, too
    case FlopFormula::kNone:
      break;
  }
  return 0;
}

uint64_t ConvolutionFlops(const Sizes& input, const Sizes& weight, const ConvolutionParameters& parameters) noexcept {
  const size_t rank = input.count;
  if (rank < 3 || weight.count != rank) return 0;
  // Each element of the output takes one multiplication for each of a filter; transposed, each of the input.
  Product product;
  product *= 2;
  product *= input[0];
  product.TimesAll(weight, 0, rank);
  for (size_t i = 2; i < rank; ++i) {
    const int64_t stride = Each(parameters.stride, i - 2, 1), padding = Each(parameters.padding, i - 2, 0),
                  dilation = Each(parameters.dilation, i - 2, 1);
    if (stride <= 0 || dilation <= 0 || padding < 0) return 0;
    const int64_t span = input[i] + 2 * padding - dilation * (weight[i] - 1) - 1;
    if (span < 0 && !parameters.is_transposed) return 0;
    product *= parameters.is_transposed ? input[i] : span / stride + 1;
  }
  return product.value();
}

}  // namespace pitot::libtorch
