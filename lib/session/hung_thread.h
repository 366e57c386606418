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

// "worker (4711), state S, waits in futex_wait_queue, at pause (libc.so.6), ..."; "": not known. It is the thread that
// began last what is still open for `request`: a scope, one for an open batch with it, or the batch itself. A thread
// whose innermost scope is a wait comes after those that do not wait. If nothing is open, it is the last thread that
// took the request. Without a request: the same for the oldest open batch.
std::string HungThread(const model::Trace& trace, uint64_t request, const KernelView& view, ViewNumbers numbers);

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_HUNG_THREAD_H_
