// SPDX-License-Identifier: Apache-2.0
//
// Mirrors running scopes to another tool (collect/nvtx). The gate's low bit, which the slow clock uses already, leads
// there: without a mirror a scope does not cost a single instruction more.
#ifndef PITOT_LIB_TRACE_MIRROR_H_
#define PITOT_LIB_TRACE_MIRROR_H_

#include <atomic>

#include "pitot/trace.h"

namespace pitot::trace {

// Called on the threads of the scopes. `name` is for a site that is named at run time. An end may come without its
// begin (the scope began before the mirror), and a begin without its end (the scope ended on another thread).
struct Mirror {
  void (*begin)(const Site* site, Name name) noexcept;
  void (*end)() noexcept;
};

// Mirrors scopes to `mirror`, which must live as long as the process, from now on. Null: scopes that begin later are
// not mirrored, but mirrored ones still get their end. The recorder's end has the effect of null.
void SetMirror(const Mirror* mirror) noexcept;

// Used by the slow clock.
extern std::atomic<const Mirror*> g_mirror;  // stays set after mirroring ends
extern std::atomic<bool> g_is_mirroring;
extern std::atomic<bool> g_is_os_clock;  // which clock the slow path reads; true while no recorder runs

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_MIRROR_H_
