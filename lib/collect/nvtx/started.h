// SPDX-License-Identifier: Apache-2.0
//
// Ranges that a start begins, and that any thread may end.
#ifndef PITOT_LIB_COLLECT_NVTX_STARTED_H_
#define PITOT_LIB_COLLECT_NVTX_STARTED_H_

#include <cstdint>

#include "collect/nvtx/event.h"

namespace pitot::nvtx {

// The range's id; 0 where there is no room, which is counted, or nothing is recorded.
uint64_t Start(const Event& event) noexcept;
// On the thread where it began it is an event that lasted; on another, a moment: that thread did not work so long.
void End(uint64_t id) noexcept;

}  // namespace pitot::nvtx

#endif  // PITOT_LIB_COLLECT_NVTX_STARTED_H_
