// SPDX-License-Identifier: Apache-2.0
#include "analyze/facts/operator_bytes.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "analyze/facts/peaks.h"

namespace pitot::facts {
namespace {

// The bytes of `count` tensors from `first` on, and of an output with `elements` of the first one's type.
double Sum(const std::vector<TensorShape>& tensors, size_t first, size_t count, double elements) {
  if (tensors.size() < first + count) return 0;
  double bytes = elements * BytesOf(tensors[first].type);
  for (size_t i = first; i < first + count; ++i) {
    if (BytesOf(tensors[i].type) == 0) return 0;
    bytes += tensors[i].Elements() * BytesOf(tensors[i].type);
  }
  return bytes;
}

// The bytes of a x b, from `first` on: the output has a's rows and b's columns.
double Product(const std::vector<TensorShape>& tensors, size_t first) {
  if (tensors.size() < first + 2) return 0;
  const TensorShape &a = tensors[first], &b = tensors[first + 1];
  if (a.sizes.size() < 2 || b.sizes.size() < 2 || a.sizes.back() <= 0) return 0;
  return Sum(tensors, first, 2, a.Elements() / a.sizes.back() * b.sizes.back());
}

// The numbers of the `index`th input: {1, 1} of "[1,1]", {1} of "1"; empty if it has none.
std::vector<double> NumbersOf(std::string_view inputs, size_t index) {
  std::vector<double> numbers;
  for (size_t i = 0;; ++i) {
    const size_t begin = inputs.find('"'), end = begin == std::string_view::npos ? begin : inputs.find('"', begin + 1);
    if (end == std::string_view::npos) return {};
    if (i < index) {
      inputs.remove_prefix(end + 1);
      continue;
    }
    std::string_view text = inputs.substr(begin + 1, end - begin - 1);
    if (text.substr(0, 1) == "[") text.remove_prefix(1);
    for (const char* at = text.data(); at < text.data() + text.size();) {
      int64_t number = 0;
      const auto [next, error] = std::from_chars(at, text.data() + text.size(), number);
      if (error != std::errc()) return numbers;
      numbers.push_back(static_cast<double>(number));
      at = next + 1;
    }
    return numbers;
  }
}

// Each value of the output takes one multiplication and one addition for each element of a filter.
double ConvolutionFlops(const std::vector<TensorShape>& tensors, std::string_view inputs) {
  constexpr size_t kStride = 3, kPadding = 4, kDilation = 5;
  if (tensors.size() < 2) return 0;
  const std::vector<double>&input = tensors[0].sizes, &weight = tensors[1].sizes;
  const size_t spatial = input.size() < 3 ? 0 : input.size() - 2;
  const std::vector<double> stride = NumbersOf(inputs, kStride), padding = NumbersOf(inputs, kPadding),
                            dilation = NumbersOf(inputs, kDilation);
  const bool is_transposed = inputs.find("\"True\"") != std::string_view::npos;
  if (spatial == 0 || weight.size() != input.size() || stride.size() != spatial || padding.size() != spatial ||
      dilation.size() != spatial || is_transposed)
    return 0;
  double outputs = input[0] * weight[0];
  for (size_t i = 0; i < spatial; ++i) {
    if (stride[i] <= 0) return 0;
    const double reach = dilation[i] * (weight[2 + i] - 1) + 1;
    outputs *= std::max(0.0, std::floor((input[2 + i] + 2 * padding[i] - reach) / stride[i]) + 1);
  }
  return 2 * outputs * (weight[0] == 0 ? 0 : tensors[1].Elements() / weight[0]);
}

bool IsFusedAttention(std::string_view op) {
  return op == "aten::_scaled_dot_product_flash_attention" || op == "aten::_scaled_dot_product_efficient_attention" ||
         op == "aten::_scaled_dot_product_cudnn_attention";
}
// `length`: which of the sizes. Keys may have fewer heads.
double AttentionFlops(const std::vector<TensorShape>& tensors, size_t length) {
  if (tensors.size() < 3 || tensors[0].sizes.size() != 4 || tensors[1].sizes.size() != 4 ||
      tensors[2].sizes.size() != 4)
    return 0;
  const std::vector<double>& query = tensors[0].sizes;
  return 2 * query[0] * query[1] * query[2] * tensors[1].sizes[length] * (query[3] + tensors[2].sizes[3]);
}
// Rows of all groups together by one matrix for each group.
double GroupedFlops(const std::vector<TensorShape>& tensors) {
  if (tensors.size() < 2 || tensors[0].sizes.size() != 2 || tensors[1].sizes.size() != 3) return 0;
  return 2 * tensors[0].Elements() * tensors[1].sizes[2];
}

}  // namespace

std::vector<TensorShape> ReadShapes(std::string_view shapes) {
  std::vector<TensorShape> tensors;
  while (!shapes.empty()) {
    const std::string_view text = shapes.substr(0, shapes.find(','));
    shapes.remove_prefix(std::min(shapes.size(), text.size() + 2));
    const size_t space = text.find(' ');
    TensorShape tensor;
    tensor.type = space == std::string_view::npos ? text : text.substr(space + 1);
    const char* const end = text.data() + (space == std::string_view::npos ? 0 : space);
    for (const char* at = text.data(); at < end;) {
      uint64_t size = 0;
      const auto [next, error] = std::from_chars(at, end, size);
      if (error != std::errc()) return tensors;
      tensor.sizes.push_back(static_cast<double>(size));
      at = next + 1;
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::vector<TensorShape> ReadJsonShapes(std::string_view sizes, std::string_view types) {
  std::vector<TensorShape> tensors;
  if (sizes.substr(0, 1) != "[") return tensors;
  sizes.remove_prefix(1);
  while (sizes.substr(0, 1) == "[") {
    const size_t end = sizes.find(']');
    if (end == std::string_view::npos) break;
    TensorShape tensor;
    bool is_list = true;
    for (const char* at = sizes.data() + 1; is_list && at < sizes.data() + end;) {
      uint64_t size = 0;
      const auto [next, error] = std::from_chars(at, sizes.data() + end, size);
      is_list = error == std::errc();  // otherwise a list of tensors
      tensor.sizes.push_back(static_cast<double>(size));
      at = next + 1;
    }
    if (!is_list) break;
    tensors.push_back(std::move(tensor));
    sizes.remove_prefix(std::min(sizes.size(), end + 2));
  }
  constexpr std::pair<std::string_view, std::string_view> kTypes[] = {{"c10::BFloat16", "bf16"},
                                                                      {"c10::Half", "f16"},
                                                                      {"float", "f32"},
                                                                      {"double", "f64"},
                                                                      {"long int", "i64"},
                                                                      {"longint", "i64"},
                                                                      {"c10::Float8_e4m3fn", "Float8_e4m3fn"},
                                                                      {"c10::Float8_e5m2", "Float8_e5m2"}};
  for (TensorShape& tensor : tensors) {
    const size_t begin = types.find('"');
    const size_t end = begin == std::string_view::npos ? begin : types.find('"', begin + 1);
    if (end == std::string_view::npos) break;
    for (const auto& [name, type] : kTypes) {
      if (types.substr(begin + 1, end - begin - 1) == name) tensor.type = type;
    }
    types.remove_prefix(end + 1);
  }
  return tensors;
}

bool IsFlashAttention(std::string_view op) { return op.ends_with("::_flash_attn_forward"); }

double FlopsOf(std::string_view op, const std::vector<TensorShape>& tensors, std::string_view inputs) {
  if (op == "aten::convolution") return ConvolutionFlops(tensors, inputs);
  if (IsFusedAttention(op)) return AttentionFlops(tensors, 2);
  if (IsFlashAttention(op)) return AttentionFlops(tensors, 1);
  if (op == "aten::_grouped_mm") return GroupedFlops(tensors);
  const bool adds = op == "aten::addmm" || op == "aten::baddbmm";
  if (!adds && op != "aten::mm" && op != "aten::bmm" && op != "aten::_scaled_mm") return 0;
  const size_t first = adds ? 1 : 0;
  if (tensors.size() < first + 2) return 0;
  const TensorShape &a = tensors[first], &b = tensors[first + 1];
  if (a.sizes.size() < 2 || a.sizes.size() != b.sizes.size()) return 0;
  return 2 * a.Elements() * b.sizes.back();
}

double LeastBytes(std::string_view op, const std::vector<TensorShape>& tensors, double flops) {
  if (op == "aten::mm" || op == "aten::bmm" || op == "aten::_scaled_mm" || op == "aten::_grouped_mm")
    return Product(tensors, 0);
  if (op == "aten::addmm" || op == "aten::baddbmm") {
    const double bytes = Product(tensors, 1);
    return bytes == 0 ? 0 : bytes + tensors[0].Elements() * BytesOf(tensors[0].type);
  }
  if (op == "aten::convolution" || op == "aten::_convolution") {
    if (tensors.size() < 2 || tensors[1].sizes.empty() || tensors[1].Elements() <= 0) return 0;
    // Each value of the output takes one multiplication and one addition for each element of a filter.
    return Sum(tensors, 0, 2, flops / 2 / (tensors[1].Elements() / tensors[1].sizes[0]));
  }
  if ((op.find("_attention") != std::string_view::npos || IsFlashAttention(op)) && tensors.size() >= 3 &&
      !tensors[0].sizes.empty() && !tensors[2].sizes.empty() && tensors[0].sizes.back() > 0)
    return Sum(tensors, 0, 3, tensors[0].Elements() / tensors[0].sizes.back() * tensors[2].sizes.back());
  return 0;
}

}  // namespace pitot::facts
