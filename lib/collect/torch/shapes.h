// SPDX-License-Identifier: Apache-2.0
//
// What an operator works on: "8x3x64x64 f32, 64x3x7x7 f32", and what that costs.
#ifndef PITOT_LIB_COLLECT_TORCH_SHAPES_H_
#define PITOT_LIB_COLLECT_TORCH_SHAPES_H_

#include <ATen/record_function.h>

#include <cstddef>
#include <cstdint>

#include "pitot/trace.h"

namespace pitot::libtorch {

// Of the operator's tensors, lists of them included, in the order of its arguments; cut where it does not fit. Of one
// whose sizes are no numbers (symbolic ones, nested tensors) "symbolic". Errors: what LibTorch throws.
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

// 0: not known. Errors: what LibTorch throws. Of operators inside one another that have some (convolution, and the
// _convolution that it calls) the outermost says it all.
uint64_t FlopsOf(const at::RecordFunction& function);

}  // namespace pitot::libtorch

#endif  // PITOT_LIB_COLLECT_TORCH_SHAPES_H_
