// SPDX-License-Identifier: Apache-2.0
//
// The tensors and operations of operators, as recorded: by pitot::torch ("flops" and "shapes"), or by the profiler of
// PyTorch ("shapes", "types" and, of convolutions, "inputs").
#ifndef PITOT_LIB_ANALYZE_FACTS_OPERATOR_WORK_H_
#define PITOT_LIB_ANALYZE_FACTS_OPERATOR_WORK_H_

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyze/facts/arguments.h"
#include "analyze/facts/operator_bytes.h"

namespace pitot::facts {

class OperatorWork {
 public:
  // The trace must outlive this.
  explicit OperatorWork(const model::Trace& trace)
      : trace_(trace),
        flops_(trace, "flops"),
        shapes_(trace, "shapes"),
        types_(trace, "types"),
        inputs_(trace, "inputs") {}
  // Whether operations are known of any operator; they may be none.
  bool IsAnywhere() const { return flops_.is_anywhere() || types_.is_anywhere(); }
  // Whether the event says how many operations it did.
  bool Has(uint32_t event) { return flops_.Of(event) != nullptr || (types_.Of(event) != nullptr && Flops(event) > 0); }
  // 0: none, or unknown.
  double Flops(uint32_t event);
  const std::vector<TensorShape>& Tensors(uint32_t event);
  std::string_view ShapesText(uint32_t event) const { return shapes_.Text(event); }
  std::string_view TypesText(uint32_t event) const { return types_.Text(event); }
  std::string_view InputsText(uint32_t event) const { return inputs_.Text(event); }

 private:
  const model::Trace& trace_;
  const Argument flops_, shapes_, types_, inputs_;
  std::unordered_map<uint64_t, std::vector<TensorShape>> read_;  // by the texts of shapes and types
};

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_OPERATOR_WORK_H_
