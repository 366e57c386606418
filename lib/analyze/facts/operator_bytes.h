// SPDX-License-Identifier: Apache-2.0
//
// How many bytes an operator must move, by the sizes and types of its tensors.
#ifndef PITOT_LIB_ANALYZE_FACTS_OPERATOR_BYTES_H_
#define PITOT_LIB_ANALYZE_FACTS_OPERATOR_BYTES_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "pitot/export.h"

namespace pitot::facts {

struct TensorShape {
  std::vector<double> sizes;
  std::string_view type;  // "f16"
  double Elements() const {
    double elements = 1;
    for (const double size : sizes) elements *= size;
    return elements;
  }
};
// Reads "8x3x224x224 f32, 64x3x7x7 f32", as pitot::torch writes it. Anything but a tensor ends the list.
std::vector<TensorShape> ReadShapes(std::string_view shapes);

// Reads "[[256,512],[512,64]]" and ["c10::BFloat16","float"], as PyTorch's profiler writes them, without blanks. Stops
// at anything but a list of sizes. An unknown type is "".
std::vector<TensorShape> ReadJsonShapes(std::string_view sizes, std::string_view types);

// Whether it is the library FlashAttention ("flash_attn::_flash_attn_forward", "aiter::_flash_attn_forward"). Its sizes
// are batch, length, heads and head dimension, those of others' attention batch, heads, length and head dimension.
bool IsFlashAttention(std::string_view op);

// The operations of an operator, by the sizes of its inputs: products of matrices (mm, addmm, bmm, baddbmm, _scaled_mm,
// _grouped_mm), convolution, and fused attention (scaled_dot_product_attention's, FlashAttention), without masks. 0 for
// other operators, also those that call one of these, and where tensors are missing. `inputs`: the values of inputs, as
// PyTorch's profiler writes them without blanks: ["","","","[1,1]","[0,0]","[1,1]","False","[0,0]","1"]. A convolution
// needs them.
double FlopsOf(std::string_view op, const std::vector<TensorShape>& tensors, std::string_view inputs);

// The bytes of the tensors read and of the one written, each counted once, as if a cache held them all. For products of
// matrices, convolutions (not transposed; the output by `flops`) and attention; 0 for other operators, and where
// tensors are missing.
double LeastBytes(std::string_view op, const std::vector<TensorShape>& tensors, double flops);

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_OPERATOR_BYTES_H_
