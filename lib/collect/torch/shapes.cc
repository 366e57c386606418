// SPDX-License-Identifier: Apache-2.0
#include "collect/torch/shapes.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "collect/torch/flops.h"

namespace pitot::libtorch {
namespace {

const char* TypeName(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "f32";
    case at::kHalf:
      return "f16";
    case at::kBFloat16:
      return "bf16";
    case at::kDouble:
      return "f64";
    case at::kLong:
      return "i64";
    case at::kInt:
      return "i32";
    case at::kShort:
      return "i16";
    case at::kChar:
      return "i8";
    case at::kByte:
      return "u8";
    case at::kBool:
      return "bool";
    default:
      return c10::toString(type);  // "Float8_e4m3fn"
  }
}

// The tensor's sizes. False if they are not numbers: it is undefined, symbolic or nested, or its class throws.
bool SizesOf(const at::Tensor& tensor, Sizes* sizes) noexcept {
  if (!tensor.defined() || tensor.is_nested() || tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides())
    return false;
  try {
    *sizes = {tensor.sizes().data(), tensor.sizes().size()};
    return true;
  } catch (...) {
    return false;
  }
}

constexpr size_t kMostTensors = 4, kMostDimensions = 8;

// The numbers in an operator's argument, if it is a number or a list of them.
struct Numbers {
  int64_t values[kMostDimensions];
  Sizes sizes;

  void Take(const c10::IValue& value) {
    if (value.isInt()) values[0] = value.toInt(), sizes = {values, 1};
    if (!value.isIntList()) return;
    const c10::List<int64_t> list = value.toIntList();
    const size_t count = std::min(list.size(), kMostDimensions);
    for (size_t i = 0; i < count; ++i) values[i] = list.get(i);
    sizes = {values, count};
  }
};

// aten::convolution(input, weight, bias, stride, padding, dilation, transposed, ...), and _convolution likewise.
uint64_t Convolution(c10::ArrayRef<const c10::IValue> inputs, const Sizes* tensors, size_t count) {
  if (inputs.size() < 7 || count < 2 || !inputs[6].isBool()) return 0;
  Numbers stride, padding, dilation;
  stride.Take(inputs[3]);
  padding.Take(inputs[4]);
  dilation.Take(inputs[5]);
  return ConvolutionFlops(tensors[0], tensors[1], {stride.sizes, padding.sizes, dilation.sizes, inputs[6].toBool()});
}

}  // namespace

void ShapeText::Put(const char* text, size_t size) noexcept {
  is_full_ = is_full_ || size > sizeof text_ - size_;
  if (is_full_) return;
  std::memcpy(text_ + size_, text, size);
  size_ += size;
}

void ShapeText::Add(const at::Tensor& tensor) {
  const size_t before = size_;
  if (size_ != 0) Put(", ", 2);
  if (Sizes sizes; SizesOf(tensor, &sizes)) {
    for (size_t i = 0; i < sizes.count; ++i) {
      char digits[24];
      if (i != 0) Put("x", 1);
      Put(digits, static_cast<size_t>(std::to_chars(digits, digits + sizeof digits, sizes[i]).ptr - digits));
    }
    Put(" ", sizes.count != 0 ? 1 : 0);
    const char* const type = TypeName(tensor.scalar_type());
    Put(type, std::strlen(type));
  } else {
    Put(tensor.defined() ? "symbolic" : "none", tensor.defined() ? 8 : 4);
  }
  if (is_full_) size_ = before;  // whole tensors only
}

ShapeText ShapesOf(const at::RecordFunction& function) {
  ShapeText text;
  for (const c10::IValue& input : function.inputs()) {
    if (input.isTensor()) text.Add(input.toTensor());
    if (!input.isTensorList()) continue;
    for (const at::Tensor& tensor : input.toTensorList()) text.Add(tensor);
  }
  return text;
}

uint64_t FlopsOf(const at::RecordFunction& function) {
  const FlopFormula formula = FormulaOf(function.name());
  if (formula == FlopFormula::kNone) return 0;
  Sizes tensors[kMostTensors];
  size_t count = 0;
  const auto inputs = function.inputs();
  for (size_t i = 0; i < inputs.size() && count < kMostTensors; ++i) {
    if (!inputs[i].isTensor()) continue;
    SizesOf(inputs[i].toTensor(), &tensors[count++]);  // on failure it has no dimensions, and fits no formula
  }
  return formula == FlopFormula::kConvolution ? Convolution(inputs, tensors, count) : Flops(formula, tensors, count);
}

}  // namespace pitot::libtorch
