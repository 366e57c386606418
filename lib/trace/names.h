// SPDX-License-Identifier: Apache-2.0
//
// The process's table of names made at run time. Reading is lock-free; adding a name takes a lock. Names are never
// removed, so a text stays valid once found.
#ifndef PITOT_LIB_TRACE_NAMES_H_
#define PITOT_LIB_TRACE_NAMES_H_

#include <atomic>
#include <cstdint>
#include <string_view>

#include "pitot/trace.h"

namespace pitot::trace {

class Box;

inline constexpr uint32_t kMaxNames = 16384;
inline constexpr uint32_t kMaxNameBytes = 120;
inline constexpr uint32_t kMaxNameTextBytes = 640 << 10;  // of all together

Name InternText(std::string_view text) noexcept;
// Returns the name equal to `text`, or Name{0} if there is none. Takes no lock.
Name FindName(std::string_view text) noexcept;
// Its text; "(other)" for index 0 and for invalid indices.
std::string_view NameText(uint32_t index) noexcept;
uint32_t CountNames() noexcept;  // including "(other)"
uint64_t NamesRefused() noexcept;
uint64_t MostNameBytes() noexcept;  // memory of the full table
// From here on every name is also written to the black box: first those that there are. Null: no more. False: there is
// no room for them.
bool WriteNamesTo(Box* box) noexcept;
// In the child of a fork: another thread may have held the lock, in the middle of an allocation.
void ResetNamesAfterFork() noexcept;

// A limit for one part of the process in the table, which the host uses, too.
class NameQuota {
 public:
  // Returns Name{0} beyond `most` new names. Threads: any.
  Name Intern(std::string_view text, uint32_t most) noexcept {
    if (const Name known = FindName(text); known.index != 0) return known;
    // Two threads with the same new text count it twice: the limit is then reached a little early.
    if (taken_.load(std::memory_order_relaxed) >= most) return Name{0};
    taken_.fetch_add(1, std::memory_order_relaxed);
    return InternText(text);
  }

 private:
  std::atomic<uint32_t> taken_{0};
};

// A bounded set of names: the first `kCapacity - 1` keep their identity, and others are folded into "(other)". Folded
// names are never interned: an unbounded set of values does not fill the table of names, and takes no lock.
template <uint32_t kCapacity> class BoundedNames {
 public:
  struct Place {
    uint32_t position = 0;  // from 1 on; 0: folded
    Name name{0};
  };
  Place Put(std::string_view text) noexcept {
    const bool is_full = names_[kCapacity - 1].load(std::memory_order_acquire) != 0;  // they fill in order
    const Name name = is_full ? FindName(text) : InternText(text);
    if (name.index == 0) return {};
    for (uint32_t i = 1; i < kCapacity; ++i) {
      uint32_t there = names_[i].load(std::memory_order_acquire);
      if (there == 0 && names_[i].compare_exchange_strong(there, name.index, std::memory_order_acq_rel))
        return {i, name};
      if (there == name.index) return {i, name};
    }
    return {};
  }

 private:
  std::atomic<uint32_t> names_[kCapacity]{};
};

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_NAMES_H_
