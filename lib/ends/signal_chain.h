// SPDX-License-Identifier: Apache-2.0
//
// Pitot's handlers of signals among those of others. The former action is remembered and comes after. A later
// handler is left alone; it may call Pitot's as its own former one.
#ifndef PITOT_LIB_ENDS_SIGNAL_CHAIN_H_
#define PITOT_LIB_ENDS_SIGNAL_CHAIN_H_

#include <signal.h>

#include "trace/former_action.h"

namespace pitot::ends {

using SignalHandler = void (*)(int signal, siginfo_t* info, void* context);

// Installs a handler, with flags next to SA_SIGINFO and SA_ONSTACK. Nothing changes if it is installed, or was covered
// by another handler since. Threads: one at a time.
void Install(int signal, SignalHandler handler, int flags) noexcept;
// Puts the former action back, unless another handler was installed since.
void Uninstall(int signal, SignalHandler handler) noexcept;
// Whether a signal has the default action.
bool IsDefault(int signal) noexcept;

// The rest is for handlers: as in trace/former_action.h, for the action before Pitot's.
bool IsIgnored(int signal, const siginfo_t& info) noexcept;
trace::After PassOn(int signal, siginfo_t* info, void* context) noexcept;

}  // namespace pitot::ends

#endif  // PITOT_LIB_ENDS_SIGNAL_CHAIN_H_
