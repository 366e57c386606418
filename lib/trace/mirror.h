// SPDX-License-Identifier: Apache-2.0
//
// Scopes told to another tool while they run (collect/nvtx). The gate's low bit, which the slow clock has already,
// leads there: where nobody is told, a scope has not one instruction more.
#ifndef PITOT_LIB_TRACE_MIRROR_H_
#define PITOT_LIB_TRACE_MIRROR_H_

#include <atomic>

#include "pitot/trace.h"

namespace pitot::trace {

// Called on the threads that the scopes run on. `name` is that of a site that is named at run time. An end may come
// without its begin (the scope began before the mirror did), and a begin without its end (it ended on another thread).
struct Mirror {
  void (*begin)(const Site* site, Name name) noexcept;
  void (*end)() noexcept;
};

// Tells `mirror`, which lives as long as the process, of scopes from now on; null: nobody of those that begin. What was
// told to begin is told to end. The recorder's end is null's.
void SetMirror(const Mirror* mirror) noexcept;

// Of the slow clock.
extern std::atomic<const Mirror*> g_mirror;  // stays when it is told of no more beginnings
extern std::atomic<bool> g_is_mirroring;
extern std::atomic<bool> g_is_os_clock;  // what a slow clock is; true where no recorder runs

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_MIRROR_H_
