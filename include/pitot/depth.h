// SPDX-License-Identifier: Apache-2.0
//
// Depth: how much is recorded, from little to much. Each depth has all of those before it.
#ifndef PITOT_DEPTH_H_
#define PITOT_DEPTH_H_

#include <stdint.h>

#include "pitot/export.h"

PITOT_NAMESPACE_BEGIN

enum class Depth : uint8_t {
  kScopes = 0,   // what the program says itself: scopes, requests, batches
  kGraphs = 1,   // what a GPU did: eager kernels, copies and sets; CUDA graphs as CuptiOptions::graph_level says
  kKernels = 2,  // each node of a CUDA graph, and the calls that launched what ran
  kOps = 3,      // a framework's operators; as kKernels where no collector records them
  kAuto = 255,   // as much as Options::overhead_budget_percent allows, all where a request is slow
};

// Of a set of depths.
constexpr uint32_t BitOf(Depth depth) noexcept { return 1u << static_cast<uint32_t>(depth); }

PITOT_NAMESPACE_END

#endif  // PITOT_DEPTH_H_
