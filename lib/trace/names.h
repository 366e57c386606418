// SPDX-License-Identifier: Apache-2.0
//
// The process's table of names made at run time. Reading is lock-free; a new name takes a lock. Nothing is ever
// removed, so a text, once found, stays.
#ifndef PITOT_LIB_TRACE_NAMES_H_
#define PITOT_LIB_TRACE_NAMES_H_

#include <atomic>
#include <cstdint>
#include <string_view>

#include "pitot/trace.h"

namespace pitot::trace {

inline constexpr uint32_t kMaxNames = 16384;
inline constexpr uint32_t kMaxNameBytes = 120;
inline constexpr uint32_t kMaxNameTextBytes = 640 << 10;  // of all together

Name InternText(std::string_view text) noexcept;
// Its text; "(other)" for index 0 and for what is no index.
std::string_view NameText(uint32_t index) noexcept;
uint64_t NamesRefused() noexcept;
uint64_t MostNameBytes() noexcept;  // memory of the table when it is full
// In the child of a fork: a lock another thread held would stay held.
void ResetNamesLockAfterFork() noexcept;

// A bounded set of names: the first `kCapacity` keep their identity, the rest are folded into index 0, "(other)".
template <uint32_t kCapacity> class BoundedNames {
 public:
  // Returns its position from 1 on, or 0 once the set is full.
  uint32_t Position(Name name) noexcept {
    if (name.index == 0) return 0;
    for (uint32_t i = 1; i < kCapacity; ++i) {
      uint32_t there = names_[i].load(std::memory_order_acquire);
      if (there == 0 && names_[i].compare_exchange_strong(there, name.index, std::memory_order_acq_rel)) return i;
      if (there == name.index) return i;
    }
    return 0;
  }
  Name At(uint32_t position) const noexcept { return {names_[position].load(std::memory_order_acquire)}; }

 private:
  std::atomic<uint32_t> names_[kCapacity]{};
};

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_NAMES_H_
