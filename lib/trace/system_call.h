// SPDX-License-Identifier: Apache-2.0
//
// The system call that another thread of this process sleeps in, by /proc/self/task/<tid>/syscall.
#ifndef PITOT_LIB_TRACE_SYSTEM_CALL_H_
#define PITOT_LIB_TRACE_SYSTEM_CALL_H_

#include <cstdint>

#include "pitot/trace.h"

namespace pitot::trace {

struct SystemCall {
  static constexpr int64_t kNone = -1;  // it sleeps, and in no call
  int64_t number = kNone;
  uint64_t stack = 0, instruction = 0;  // its stack pointer and program counter
  bool is_timed_futex = false;          // it waits in futex for a limited time
};
// The contents of that file. False if the thread runs, or the text is not of this kind.
bool ParseSystemCall(const char* text, SystemCall* call) noexcept;
// "recv": the name of the function that people call. Intern("") for kNone.
Name SystemCallName(int64_t number) noexcept;

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_SYSTEM_CALL_H_
