// SPDX-License-Identifier: Apache-2.0
//
// The used part of CUPTI's range profiler, declared here so that Pitot builds without CUDA. The parts shared
// with PM sampling are in collect/counters/abi.h. A test compares both with NVIDIA's headers if they are installed.
#ifndef PITOT_LIB_COLLECT_PROFILE_ABI_H_
#define PITOT_LIB_COLLECT_PROFILE_ABI_H_

#include <cstddef>
#include <cstdint>

#include "collect/counters/abi.h"

namespace pitot::profile {

using counters::Result;

inline constexpr auto kRangeProfiler = static_cast<counters::ProfilerType>(0);
enum Range : int { kAutoRange = 1 };
enum ReplayMode : int { kKernelReplay = 2, kUserReplay = 3 };

struct ContextAvailabilityParams {
  size_t size;
  void* reserved;
  void* context;
  size_t image_bytes;
  uint8_t* image;
};
struct RangeEnableParams {
  size_t size;
  void* reserved;
  void* context;
  void* profiler;
};
struct RangeParams {  // of start and disable
  size_t size;
  void* reserved;
  void* profiler;
};
struct RangeConfigParams {
  size_t size;
  void* reserved;
  void* profiler;
  size_t config_bytes;
  const uint8_t* config;
  size_t data_bytes;
  uint8_t* data;
  Range range;
  ReplayMode replay;
  size_t most_ranges;
  uint16_t levels, least_level;
  size_t pass;
  uint16_t target_level;
};
struct RangeStopParams {
  size_t size;
  void* reserved;
  void* profiler;
  size_t pass, target_level;
  uint8_t is_all_submitted;
};
struct RangeDecodeParams {
  size_t size;
  void* reserved;
  void* profiler;
  size_t dropped;
};
struct RangeDataSizeParams {
  size_t size;
  void* reserved;
  void* profiler;
  const char** metrics;
  size_t count;
  size_t most_ranges;
  uint32_t most_nodes;
  size_t bytes;
};
struct RangeDataInitializeParams {
  size_t size;
  void* reserved;
  void* profiler;
  size_t bytes;
  uint8_t* data;
};
struct RangeDataInfoParams {
  size_t size;
  void* reserved;
  const uint8_t* data;
  size_t bytes;
  size_t ranges;
};

// Zeroed, with its size.
template <class Params> Params MakeRange() {
  Params params{};
  params.size = sizeof params;
  return params;
}
// NVIDIA counts up to the last member.
template <> inline RangeConfigParams MakeRange() {
  RangeConfigParams params{};
  params.size = offsetof(RangeConfigParams, target_level) + sizeof params.target_level;
  return params;
}
template <> inline RangeStopParams MakeRange() {
  RangeStopParams params{};
  params.size = offsetof(RangeStopParams, is_all_submitted) + sizeof params.is_all_submitted;
  return params;
}

}  // namespace pitot::profile

#endif  // PITOT_LIB_COLLECT_PROFILE_ABI_H_
