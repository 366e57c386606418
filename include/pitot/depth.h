// SPDX-License-Identifier: Apache-2.0
//
// Depth: how much is recorded, from little to much. Each depth includes the ones before it.
#ifndef PITOT_DEPTH_H_
#define PITOT_DEPTH_H_

#include <stdint.h>

#include "pitot/export.h"

PITOT_NAMESPACE_BEGIN

enum class Depth : uint8_t {
  kScopes = 0,   // what the program records itself: scopes, requests, batches
  kGraphs = 1,   // GPU activities: eager kernels, copies and sets; CUDA graphs as set by CuptiOptions::graph_level
  kKernels = 2,  // each node of a CUDA graph, and the launching calls
  kOps = 3,      // a framework's operators; without a collector for them like kKernels
  kAuto = 255,   // as much as Options::overhead_budget_percent allows, and everything when a request is slow
};

// The bit of a depth in a set of depths.
constexpr uint32_t BitOf(Depth depth) noexcept { return 1u << static_cast<uint32_t>(depth); }

PITOT_NAMESPACE_END

#endif  // PITOT_DEPTH_H_
