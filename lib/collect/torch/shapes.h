// SPDX-License-Identifier: Apache-2.0
//
// The tensors of an operator, "8x3x64x64 f32, 64x3x7x7 f32", and its cost.
#ifndef PITOT_LIB_COLLECT_TORCH_SHAPES_H_
#define PITOT_LIB_COLLECT_TORCH_SHAPES_H_

#include <ATen/record_function.h>

#include <cstddef>
#include <cstdint>

#include "pitot/trace.h"

namespace pitot::libtorch {

// Text of the operator's tensors, lists of them included, in the order of its arguments; cut if it does not fit. A
// tensor whose sizes are not numbers (symbolic ones, nested tensors) is "symbolic". Errors: LibTorch's exceptions.
struct ShapeText {
  void Add(const at::Tensor& tensor);
  size_t size() const { return size_; }
  const char* data() const { return text_; }

 private:
  void Put(const char* text, size_t size) noexcept;
  char text_[detail::kMaxStringBytes];
  size_t size_ = 0;
  bool is_full_ = false;
};
ShapeText ShapesOf(const at::RecordFunction& function);

// Floating point operations; 0: unknown. Errors: LibTorch's exceptions. Operators inside one another may each have some
// (convolution, and its call of _convolution); the outermost then has all of them.
uint64_t FlopsOf(const at::RecordFunction& function);

}  // namespace pitot::libtorch

#endif  // PITOT_LIB_COLLECT_TORCH_SHAPES_H_
