// SPDX-License-Identifier: Apache-2.0
//
// Ranges begun by a start; any thread may end them.
#ifndef PITOT_LIB_COLLECT_NVTX_STARTED_H_
#define PITOT_LIB_COLLECT_NVTX_STARTED_H_

#include <cstdint>

#include "collect/nvtx/event.h"

namespace pitot::nvtx {

// Begins a range and returns its id; 0 if nothing is recorded, or there is no room (this is counted).
uint64_t Start(const Event& event) noexcept;
// Ends a range. On the thread of its start it is an event with a duration. On another it is a moment, because that
// thread did not work so long.
void End(uint64_t id) noexcept;

}  // namespace pitot::nvtx

#endif  // PITOT_LIB_COLLECT_NVTX_STARTED_H_
