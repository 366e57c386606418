// SPDX-License-Identifier: Apache-2.0
#include "collect/torch/flops.h"

#include <catch2/catch.hpp>
#include <initializer_list>
#include <vector>

namespace {

using namespace pitot::libtorch;

using Tensor = std::vector<int64_t>;

uint64_t Count(FlopFormula formula, const std::vector<Tensor>& tensors) {
  std::vector<Sizes> sizes;
  for (const Tensor& tensor : tensors) sizes.push_back({tensor.data(), tensor.size()});
  return Flops(formula, sizes.data(), sizes.size());
}

struct Parameters {
  Tensor stride, padding, dilation;
  bool is_transposed = false;
};
uint64_t Convolution(const Tensor& input, const Tensor& weight, const Parameters& parameters) {
  const auto of = [](const Tensor& tensor) { return Sizes{tensor.data(), tensor.size()}; };
  return ConvolutionFlops(
      of(input), of(weight),
      {of(parameters.stride), of(parameters.padding), of(parameters.dilation), parameters.is_transposed});
}

}  // namespace

TEST_CASE("products of matrices take two operations for each multiplication", "[torch]") {
  CHECK(Count(FlopFormula::kMatmul, {{3, 5}, {5, 7}}) == 2 * 3 * 5 * 7);
  CHECK(Count(FlopFormula::kAddMatmul, {{7}, {3, 5}, {5, 7}}) == 2 * 3 * 5 * 7);
  CHECK(Count(FlopFormula::kBatchMatmul, {{4, 3, 5}, {4, 5, 7}}) == 2 * 4 * 3 * 5 * 7);
  CHECK(Count(FlopFormula::kAddBatchMatmul, {{4, 3, 7}, {4, 3, 5}, {4, 5, 7}}) == 2 * 4 * 3 * 5 * 7);
}

// Published: ResNet-50's first layer at 224 px has 118,013,952 multiplications and additions.
TEST_CASE("a convolution takes a filter for each element of its output", "[torch]") {
  CHECK(Convolution({1, 3, 224, 224}, {64, 3, 7, 7}, {{2, 2}, {3, 3}, {1, 1}}) == 2ull * 118'013'952);
  CHECK(Convolution({1, 3, 224, 224}, {64, 3, 7, 7}, {{2}, {3}, {1}}) == 2ull * 118'013'952);  // one for all
  // With groups each filter sees its part.
  CHECK(Convolution({2, 32, 10, 10}, {32, 1, 3, 3}, {{1, 1}, {1, 1}, {1, 1}}) == 2ull * 2 * 32 * 9 * 100);
  CHECK(Convolution({1, 4, 10}, {8, 4, 3}, {{1}, {0}, {2}}) == 2ull * 8 * 4 * 3 * 6);  // dilated, in one dimension
  CHECK(Convolution({1, 8, 5, 5}, {8, 4, 3, 3}, {{2, 2}, {0, 0}, {1, 1}, true}) == 2ull * 8 * 4 * 9 * 25);
  // Transposed, the input may be smaller than the filter: DCGAN's first layer.
  CHECK(Convolution({1, 100, 1, 1}, {100, 512, 4, 4}, {{1, 1}, {0, 0}, {1, 1}, true}) == 2ull * 100 * 512 * 16);
}

TEST_CASE("attention is two products of matrices", "[torch]") {
  CHECK(Count(FlopFormula::kAttention, {{2, 8, 16, 64}, {2, 8, 32, 64}, {2, 8, 32, 64}}) ==
        2ull * 2 * 8 * 16 * 32 * 64 * 2);
}

TEST_CASE("sizes that do not fit, are negative or too large count as unknown", "[torch]") {
  CHECK(Count(FlopFormula::kMatmul, {{3, 5}, {4, 7}}) == 0);
  CHECK(Count(FlopFormula::kMatmul, {{3, 5}}) == 0);
  CHECK(Count(FlopFormula::kMatmul, {{3}, {3, 5}}) == 0);
  CHECK(Count(FlopFormula::kMatmul, {{-3, 5}, {5, 7}}) == 0);
  CHECK(Count(FlopFormula::kBatchMatmul, {{4, 3, 5}, {5, 5, 7}}) == 0);
  CHECK(Count(FlopFormula::kAttention, {{16, 64}, {32, 64}}) == 0);
  constexpr int64_t kHuge = int64_t{1} << 40;
  CHECK(Count(FlopFormula::kMatmul, {{kHuge, 5}, {5, kHuge}}) == 0);
  CHECK(Convolution({1, 3, 2, 2}, {64, 3, 7, 7}, {}) == 0);  // smaller than its filter
  CHECK(Convolution({1, 3, 8, 8}, {64, 3, 7, 7}, {{0, 0}, {0, 0}, {1, 1}}) == 0);
  CHECK(Convolution({1, 3}, {64, 3}, {}) == 0);
}

TEST_CASE("the working one of operators that call one another is counted", "[torch]") {
  CHECK(FormulaOf("aten::addmm") == FlopFormula::kAddMatmul);
  CHECK(FormulaOf("aten::convolution") == FlopFormula::kConvolution);
  CHECK(FormulaOf("aten::conv2d") == FlopFormula::kNone);  // calls convolution
  CHECK(FormulaOf("aten::linear") == FlopFormula::kNone);  // calls addmm
  CHECK(FormulaOf("") == FlopFormula::kNone);
}
