// SPDX-License-Identifier: Apache-2.0
//
// Why an operator cannot come near its roofline, by the sizes of its tensors alone.
#ifndef PITOT_LIB_ANALYZE_FACTS_SHAPE_REASON_H_
#define PITOT_LIB_ANALYZE_FACTS_SHAPE_REASON_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/facts/operator_bytes.h"

namespace pitot::facts {

struct ShapeReason {
  std::string text;  // "its output of 256 x 512 is about 8 tiles of 128 x 128, for 132 multiprocessors"; "": none
  const char* advice = "";
};
// For products of matrices, convolutions and attention. `inputs` as in FlopsOf. `multiprocessors` 0: unknown.
ShapeReason FindShapeReason(std::string_view op, const std::vector<TensorShape>& tensors, std::string_view inputs,
                            uint32_t multiprocessors);

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_SHAPE_REASON_H_
