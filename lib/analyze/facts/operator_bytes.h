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

// The bytes of the tensors read and of the one written, each counted once, as if a cache held them all. For products of
// matrices, convolutions (not transposed; the output by `flops`) and attention; 0 for other operators, and where
// tensors are missing.
double LeastBytes(std::string_view op, const std::vector<TensorShape>& tensors, double flops);

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_OPERATOR_BYTES_H_
