// SPDX-License-Identifier: Apache-2.0
#include "read/xla_details.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>

namespace pitot::read {
namespace {

// The number that a text begins with, and moves behind it; the greatest if it is greater.
template <class Number> Number TakeNumber(std::string_view* text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return error == std::errc::result_out_of_range ? std::numeric_limits<Number>::max() : number;
}

void TakeAxes(std::string_view text, uint32_t (&axes)[3]) {
  for (uint32_t& axis : axes) {
    axis = TakeNumber<uint32_t>(&text);
    text.remove_prefix(std::min(text.find(',') + 1, text.size()));
  }
}

}  // namespace

std::string_view XlaDetail(std::string_view details, std::string_view key) {
  const size_t at = details.find(key);
  if (at == std::string_view::npos) return {};
  details.remove_prefix(at + key.size());
  return details.substr(0, details.find(' '));
}

uint32_t XlaNumber(std::string_view text) { return TakeNumber<uint32_t>(&text); }

const model::KernelShape& XlaLaunches::Of(std::string_view kernel_details) {
  if (const auto found = known_.find(kernel_details); found != known_.end()) return found->second;
  model::KernelShape& shape = known_[std::string(kernel_details)];
  TakeAxes(XlaDetail(kernel_details, "grid:"), shape.grid);
  TakeAxes(XlaDetail(kernel_details, "block:"), shape.block);
  shape.static_shared_bytes = XlaNumber(XlaDetail(kernel_details, "static_shared:"));
  shape.dynamic_shared_bytes = XlaNumber(XlaDetail(kernel_details, "dynamic_shared:"));
  shape.registers_per_thread = XlaNumber(XlaDetail(kernel_details, "regs:"));
  return shape;
}

uint64_t CopiedBytes(std::string_view memcpy_details) {
  std::string_view size = XlaDetail(memcpy_details, "size:");
  return static_cast<uint64_t>(std::max<int64_t>(0, TakeNumber<int64_t>(&size)));
}

}  // namespace pitot::read
