// SPDX-License-Identifier: Apache-2.0
//
// Reads memory that may have been unmapped: returns false instead of faulting.
#ifndef PITOT_LIB_BASE_SAFE_READ_H_
#define PITOT_LIB_BASE_SAFE_READ_H_

#include <cstdint>
#include <string>

namespace pitot::base {

// Copies `size` bytes of this process's memory; false if they are not mapped. Never faults.
bool ReadMemory(uint64_t address, void* out, uint64_t size) noexcept;
// Whether ReadMemory works here (a seccomp filter may forbid both of its ways).
bool CanReadMemory() noexcept;
// The string at `address`, at most `limit` bytes; false if unreadable.
bool ReadString(uint64_t address, uint64_t limit, std::string* out);

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_SAFE_READ_H_
