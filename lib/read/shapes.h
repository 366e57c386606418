// SPDX-License-Identifier: Apache-2.0
//
// The launch parameters of a trace's kernels, each distinct one once.
#ifndef PITOT_LIB_READ_SHAPES_H_
#define PITOT_LIB_READ_SHAPES_H_

#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "pitot/model/trace.h"

namespace pitot::read {

class Shapes {
 public:
  // `trace` must outlive it.
  explicit Shapes(model::Trace* trace) : trace_(*trace) {}

  // The row of a shape.
  uint32_t Of(const model::KernelShape& shape) {
    const auto [found, is_new] = rows_.try_emplace(shape, static_cast<uint32_t>(trace_.shapes.size()));
    if (is_new) trace_.shapes.push_back(shape);
    return found->second;
  }

 private:
  // The members are numbers of one size, without gaps.
  static std::string_view BytesOf(const model::KernelShape& shape) {
    return {reinterpret_cast<const char*>(&shape), sizeof shape};
  }
  struct Hash {
    size_t operator()(const model::KernelShape& shape) const { return std::hash<std::string_view>()(BytesOf(shape)); }
  };
  struct IsEqual {
    bool operator()(const model::KernelShape& a, const model::KernelShape& b) const { return BytesOf(a) == BytesOf(b); }
  };

  model::Trace& trace_;
  std::unordered_map<model::KernelShape, uint32_t, Hash, IsEqual> rows_;
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_SHAPES_H_
