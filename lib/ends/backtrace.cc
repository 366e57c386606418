// SPDX-License-Identifier: Apache-2.0
#include "ends/backtrace.h"

#include <ucontext.h>
#include <unwind.h>

#include "base/safe_read.h"

namespace pitot::ends {
namespace {

constexpr uint64_t kLeastAddress = 4096;
constexpr uint64_t kMostFrameBytes = 16u << 20;  // between two frame pointers

struct Walk {
  uint64_t from;  // the frames of the handler come before
  uint64_t* frames;
  uint32_t most, count;
  bool is_found;
};

_Unwind_Reason_Code Add(_Unwind_Context* context, void* argument) {
  auto* walk = static_cast<Walk*>(argument);
  const uint64_t at = _Unwind_GetIP(context);
  walk->is_found = walk->is_found || at == walk->from;
  if (!walk->is_found) return _URC_NO_REASON;
  if (walk->count == walk->most || at == 0) return _URC_END_OF_STACK;
  walk->frames[walk->count++] = at;
  return _URC_NO_REASON;
}

bool IsCode(uint64_t address) noexcept {
  char byte;
  return address >= kLeastAddress && base::ReadMemory(address, &byte, 1);
}

}  // namespace

Registers RegistersOf(const void* context) noexcept {
  const mcontext_t& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  const auto at = [&](int which) { return static_cast<uint64_t>(machine.gregs[which]); };
  return {at(REG_RIP), at(REG_RBP), at(REG_RSP), 0};
#elif defined(__aarch64__)
  return {machine.pc, machine.regs[29], machine.sp, machine.regs[30]};
#else
  static_cast<void>(machine);
  return {};
#endif
}

[[gnu::noinline]] Registers RegistersHere() noexcept {
  const auto* frame = static_cast<const uint64_t*>(__builtin_frame_address(0));
  return {reinterpret_cast<uint64_t>(__builtin_return_address(0)), frame[0], 0, 0};
}

uint32_t FollowFramePointers(const Registers& from, uint64_t* frames, uint32_t most) noexcept {
  uint32_t count = 0;
  if (most == 0) return 0;
  frames[count++] = from.instruction;
  // After a jump to nowhere, the caller is where a call puts it.
  if (uint64_t caller = from.link; count < most && !IsCode(from.instruction)) {
    if (caller == 0) base::ReadMemory(from.stack, &caller, sizeof caller);
    if (IsCode(caller)) frames[count++] = caller;
  }
  for (uint64_t at = from.frame; count < most && at >= kLeastAddress && at % sizeof at == 0;) {
    uint64_t next_and_caller[2];
    if (!base::ReadMemory(at, next_and_caller, sizeof next_and_caller)) break;
    const auto [next, caller] = next_and_caller;
    if (!IsCode(caller)) break;
    frames[count++] = caller;
    if (next <= at || next - at > kMostFrameBytes) break;
    at = next;
  }
  return count;
}

uint32_t Unwind(uint64_t from, uint64_t* frames, uint32_t most) noexcept {
  Walk walk{from, frames, most, 0, from == 0};
  _Unwind_Backtrace(Add, &walk);
  return walk.count;
}

void LoadUnwinder() noexcept {
  uint64_t frames[4];
  Unwind(0, frames, 4);
}

}  // namespace pitot::ends
