// SPDX-License-Identifier: Apache-2.0
//
// Puts the last rows of columns in an order, one column after another, using memory for one.
#ifndef PITOT_LIB_ASSEMBLE_REORDERING_H_
#define PITOT_LIB_ASSEMBLE_REORDERING_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace pitot::assemble {

class Reordering {
 public:
  // From row `first` on: the rows in their new order.
  explicit Reordering(const std::vector<uint32_t>& order, uint32_t first = 0)
      : order_(order),
        first_(first),
        sorted_(std::make_unique_for_overwrite<std::byte[]>(order.size() * sizeof(uint64_t))) {}
  template <class Value> void Apply(std::vector<Value>* column) const {
    static_assert(std::is_trivially_copyable_v<Value> && sizeof(Value) <= sizeof(uint64_t));
    std::byte* to = sorted_.get();
    for (const uint32_t row : order_)
      std::memcpy(std::exchange(to, to + sizeof(Value)), &(*column)[row], sizeof(Value));
    if (!order_.empty()) std::memcpy(column->data() + first_, sorted_.get(), order_.size() * sizeof(Value));
    column->resize(first_ + order_.size());
  }

 private:
  const std::vector<uint32_t>& order_;
  const uint32_t first_;
  const std::unique_ptr<std::byte[]> sorted_;
};

}  // namespace pitot::assemble

#endif  // PITOT_LIB_ASSEMBLE_REORDERING_H_
