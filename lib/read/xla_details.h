// SPDX-License-Identifier: Apache-2.0
//
// What XLA's tracer, and Pitot's writer of XSpaces, say of a launch or a copy in one text, part by part:
// "regs:40 static_shared:0 dynamic_shared:0 grid:8,1,1 block:256,1,1".
#ifndef PITOT_LIB_READ_XLA_DETAILS_H_
#define PITOT_LIB_READ_XLA_DETAILS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "pitot/model/gpu.h"

namespace pitot::read {

// The part behind `key` ("grid:"), up to the next space; "": there is none.
std::string_view XlaDetail(std::string_view details, std::string_view key);
// The number that a text begins with, up to UINT32_MAX; 0: none.
uint32_t XlaNumber(std::string_view text);

// Launches by their texts: a program has few.
class XlaLaunches {
 public:
  const model::KernelShape& Of(std::string_view kernel_details);

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, model::KernelShape, Hash, std::equal_to<>> known_;
};

uint64_t CopiedBytes(std::string_view memcpy_details);

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_XLA_DETAILS_H_
