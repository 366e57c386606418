// SPDX-License-Identifier: Apache-2.0
//
// What a signal did before a handler of Pitot's was there, and does after it. All functions are for handlers, except
// HandlerOf and ActionOf.
#ifndef PITOT_LIB_TRACE_FORMER_ACTION_H_
#define PITOT_LIB_TRACE_FORMER_ACTION_H_

#include <signal.h>

#include <cstdint>

namespace pitot::trace {

using Action = struct sigaction;

Action ActionOf(int signal) noexcept;
// The handler of an action, in either form.
uintptr_t HandlerOf(const Action& action) noexcept;
bool IsDefault(const Action& action) noexcept;

// Whether the process goes on after this signal: it is ignored, and no instruction failed.
bool IsIgnored(const Action& former, const siginfo_t& info) noexcept;
enum class After : uint8_t { kGoesOn, kEnds };
// Does what the former action does, as if Pitot's handler were not there. kGoesOn: a former handler returned, and had
// changed nothing. The caller returns at once.
After PassOn(const Action& former, int signal, siginfo_t* info, void* context) noexcept;
// Ends the process by a signal of this thread, with its default action, once the handler returns.
void DieOnReturn(int signal, siginfo_t* info) noexcept;
// Ends the process by a signal now. Returns, with the signal's action as before, if the kernel ignores that: it does
// for the first process of a container. On a thread that blocks the signal.
void DieNow(int signal) noexcept;

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_FORMER_ACTION_H_
