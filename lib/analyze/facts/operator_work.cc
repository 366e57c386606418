// SPDX-License-Identifier: Apache-2.0
#include "analyze/facts/operator_work.h"

namespace pitot::facts {

const std::vector<TensorShape>& OperatorWork::Tensors(uint32_t event) {
  const auto text_of = [event](const Argument& argument) {
    return argument.Of(event) == nullptr ? model::StringId{0} : static_cast<model::StringId>(*argument.Of(event));
  };
  const model::StringId shapes = text_of(shapes_), types = text_of(types_);
  const auto [found, is_new] = read_.try_emplace(uint64_t{types} << 32 | shapes);
  if (is_new)
    found->second =
        types == 0 ? ReadShapes(trace_.strings[shapes]) : ReadJsonShapes(trace_.strings[shapes], trace_.strings[types]);
  return found->second;
}

double OperatorWork::Flops(uint32_t event) {
  if (flops_.Of(event) != nullptr) return flops_.Number(event);
  if (types_.Of(event) == nullptr) return 0;
  return FlopsOf(trace_.EventName(event), Tensors(event), inputs_.Text(event));
}

}  // namespace pitot::facts
