// SPDX-License-Identifier: Apache-2.0
//
// Looks up functions for Pitot itself. dlsym may lead to a wrapper (collect/cuda_calls), and calls by Pitot are
// nobody's.
#ifndef PITOT_LIB_TRACE_OWN_LOOK_UP_H_
#define PITOT_LIB_TRACE_OWN_LOOK_UP_H_

#include <dlfcn.h>

namespace pitot::trace {

// True while this thread does so.
inline constinit thread_local bool t_is_own_look_up = false;

// False: there is none, and `function` is null.
template <class Function> bool FindOwn(void* handle, const char* name, Function* function) {
  t_is_own_look_up = true;
  *function = reinterpret_cast<Function>(dlsym(handle, name));
  t_is_own_look_up = false;
  return *function != nullptr;
}

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_OWN_LOOK_UP_H_
