// SPDX-License-Identifier: Apache-2.0
//
// Raw return addresses, in a handler of a signal.
#ifndef PITOT_LIB_ENDS_BACKTRACE_H_
#define PITOT_LIB_ENDS_BACKTRACE_H_

#include <cstdint>

namespace pitot::ends {

// Where a backtrace begins: the registers at the end.
struct Registers {
  uint64_t instruction = 0;
  uint64_t frame = 0;  // the frame pointer
  uint64_t stack = 0;
  uint64_t link = 0;  // the return address in a register, where the CPU has one
};
// At the place of a signal. `context` is the third argument of its handler.
Registers RegistersOf(const void* context) noexcept;
// Those of the caller.
Registers RegistersHere() noexcept;

// Follows frame pointers. Always safe: memory is read by system calls, and the stack must rise. Code without
// frame pointers ends it early. Returns the number of addresses, `most` at most.
uint32_t FollowFramePointers(const Registers& from, uint64_t* frames, uint32_t most) noexcept;

// Asks the C++ runtime's unwinder: it needs no frame pointers. Since glibc 2.35 it takes no lock, and it never
// allocates once LoadUnwinder was called. On a broken stack it may fault, and with an older C library it may wait for
// the loader. So its caller must survive both. Begins at the frame with the instruction `from`; 0: at this function.
// Returns 0 if it never comes there.
uint32_t Unwind(uint64_t from, uint64_t* frames, uint32_t most) noexcept;
// Has the unwinder load its data. Not in a handler.
void LoadUnwinder() noexcept;

}  // namespace pitot::ends

#endif  // PITOT_LIB_ENDS_BACKTRACE_H_
