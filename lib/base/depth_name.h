// SPDX-License-Identifier: Apache-2.0
//
// Names of depths, in options, the environment, Stats, incidents and traces.
#ifndef PITOT_LIB_BASE_DEPTH_NAME_H_
#define PITOT_LIB_BASE_DEPTH_NAME_H_

#include <cstddef>
#include <cstring>
#include <iterator>

#include "pitot/depth.h"

namespace pitot::base {

inline constexpr const char* kDepthNames[] = {"scopes", "graphs", "kernels", "ops"};  // by Depth; kAuto is "auto"

// "auto" also for an invalid depth. Never null.
constexpr const char* DepthName(Depth depth) noexcept {
  const auto row = static_cast<size_t>(depth);
  return row < std::size(kDepthNames) ? kDepthNames[row] : "auto";
}

// False: no depth has that name.
inline bool ParseDepth(const char* name, Depth* depth) noexcept {
  if (std::strcmp(name, "auto") == 0) return *depth = Depth::kAuto, true;
  for (size_t row = 0; row < std::size(kDepthNames); ++row) {
    if (std::strcmp(name, kDepthNames[row]) == 0) return *depth = static_cast<Depth>(row), true;
  }
  return false;
}

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_DEPTH_NAME_H_
