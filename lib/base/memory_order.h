// SPDX-License-Identifier: Apache-2.0
//
// Short names for the orders of atomic operations.
#ifndef PITOT_LIB_BASE_MEMORY_ORDER_H_
#define PITOT_LIB_BASE_MEMORY_ORDER_H_

#include <atomic>

namespace pitot::base {

inline constexpr auto kRelaxed = std::memory_order_relaxed;
inline constexpr auto kAcquire = std::memory_order_acquire;
inline constexpr auto kRelease = std::memory_order_release;

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_MEMORY_ORDER_H_
