// SPDX-License-Identifier: Apache-2.0
//
// The thread by which a wedged process hangs: its own record says which one, the kernel says where it is.
#ifndef PITOT_LIB_SESSION_HUNG_THREAD_H_
#define PITOT_LIB_SESSION_HUNG_THREAD_H_

#include <cstdint>
#include <string>

#include "pitot/model/trace.h"
#include "session/kernel_view.h"

namespace pitot::session {

// Which numbers a view has for threads: those of the process itself, or of another namespace.
enum class ViewNumbers : uint8_t { kOwn, kOthers };

// "worker (4711), state S, waits in futex_wait_queue, at pause (libc.so.6), ..."; "": not known. It is the thread with
// an open scope for `request`, or for a batch with it, otherwise the last one that took it. Without a request: the
// thread of the oldest open batch.
std::string HungThread(const model::Trace& trace, uint64_t request, const KernelView& view, ViewNumbers numbers);

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_HUNG_THREAD_H_
