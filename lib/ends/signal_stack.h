// SPDX-License-Identifier: Apache-2.0
//
// Stacks on which threads handle signals: without one, a stack overflow leaves no room for a handler.
#ifndef PITOT_LIB_ENDS_SIGNAL_STACK_H_
#define PITOT_LIB_ENDS_SIGNAL_STACK_H_

namespace pitot::ends {

// Gives the calling thread a stack for signals until it ends, if it has none. A later one of the host takes its place.
// Without memory, or without a key for thread exits, nothing happens. Cost: the first call of a thread about 10 us; 64
// KiB of address space, unused before a signal.
void GiveSignalStack() noexcept;

}  // namespace pitot::ends

#endif  // PITOT_LIB_ENDS_SIGNAL_STACK_H_
