// SPDX-License-Identifier: Apache-2.0
//
// Scopes for code that gets two calls rather than a block: callbacks of a framework (LibTorch's RecordFunction, NVTX's
// push and pop) that have nowhere to keep an object.
//
//   void OnBegin(const char* name) { pitot::BeginScope(pitot::Intern(name)); }
//   void OnEnd() { pitot::EndScope(); }
//
// They are scopes like PITOT_SCOPE's, on the same stack of the thread: dumps show them while they are open, and they
// end on the thread where they began, the newest first. Where a block is to be had, PITOT_SCOPE is cheaper.
#ifndef PITOT_MANUAL_H_
#define PITOT_MANUAL_H_

#include "pitot/export.h"
#include "pitot/trace.h"

PITOT_NAMESPACE_BEGIN

// Begins a scope of the calling thread. A site has no arguments and stays where it is. One that lies deeper than 62
// open scopes is not recorded, and counted in Stats::events_refused. Cost: as a scope, and a call. Threads: any.
PITOT_EXPORT void BeginScope(Name name) noexcept;
PITOT_EXPORT void BeginScope(const Site* site) noexcept;
// Ends the newest scope that the calling thread began so. Without one (recording started in between) it does nothing.
PITOT_EXPORT void EndScope() noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_MANUAL_H_
