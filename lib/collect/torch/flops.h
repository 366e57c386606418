// SPDX-License-Identifier: Apache-2.0
//
// The floating point operations of expensive operators, from the sizes of their tensors; a multiplication and an
// addition are two. The formulas are PyTorch's own (torch/utils/flop_counter.py, of 2.11): those of the profiler's
// table, and attention, which the table leaves out.
#ifndef PITOT_LIB_COLLECT_TORCH_FLOPS_H_
#define PITOT_LIB_COLLECT_TORCH_FLOPS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pitot::libtorch {

enum class FlopFormula : uint8_t {
  kNone,
  kMatmul,          // [m, k] x [k, n]: 2 m k n
  kAddMatmul,       // likewise, for the second and third tensor
  kBatchMatmul,     // [b, m, k] x [b, k, n]: 2 b m k n
  kAddBatchMatmul,  // likewise, for the second and third tensor
  kConvolution,     // [n, c, ...] * [f, c / groups, ...]: 2 n f (c / groups) prod(kernel) prod(output)
  kAttention,       // [.., s, d] x [.., t, d], [.., t, e]: 2 (.. s t d + .. s t e); causal ones are not halved
};

// The formula of an operator ("aten::addmm"). kNone for operators that cost little or call a counted one.
FlopFormula FormulaOf(std::string_view op) noexcept;

struct Sizes {
  const int64_t* data = nullptr;
  size_t count = 0;
  int64_t operator[](size_t i) const { return data[i]; }
};

// `tensors`: sizes of the operator's tensors, in the order of its arguments; `count`: how many it has. Returns 0 if
// they do not fit the formula, or the result is too large for a number.
uint64_t Flops(FlopFormula formula, const Sizes* tensors, size_t count) noexcept;

// The other arguments of a convolution. Arrays have one number for each of the kernel's dimensions, or one for all.
struct ConvolutionParameters {
  Sizes stride, padding, dilation;
  bool is_transposed = false;
};
uint64_t ConvolutionFlops(const Sizes& input, const Sizes& weight, const ConvolutionParameters& parameters) noexcept;

}  // namespace pitot::libtorch

#endif  // PITOT_LIB_COLLECT_TORCH_FLOPS_H_
