// SPDX-License-Identifier: Apache-2.0
//
// Why records of GPU work are missing from a trace of another profiler: the reasons of model::GpuLossRow that the
// reader writes and the analysis explains.
#ifndef PITOT_LIB_BASE_GPU_LOSS_REASON_H_
#define PITOT_LIB_BASE_GPU_LOSS_REASON_H_

#include <string_view>

namespace pitot::base {

// Records that were set aside.
inline constexpr std::string_view kNoTime = "no time";
inline constexpr std::string_view kImpossibleDuration = "impossible duration";  // ", 6.80 s in all" may follow
// Calls whose work is not in the file.
inline constexpr std::string_view kLaunchWithoutWork = "launch without work";
inline constexpr std::string_view kGraphWithoutWork = "graph without work";
inline constexpr std::string_view kGraphInPart = "graph in part";

inline bool IsOfReader(std::string_view reason) {
  return reason == kNoTime || reason.starts_with(kImpossibleDuration) || reason == kLaunchWithoutWork ||
         reason == kGraphWithoutWork || reason == kGraphInPart;
}

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_GPU_LOSS_REASON_H_
