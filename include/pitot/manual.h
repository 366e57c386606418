// SPDX-License-Identifier: Apache-2.0
//
// Scopes for code that gets two calls rather than a block: callbacks of a framework (LibTorch's RecordFunction, NVTX's
// push and pop) that cannot keep an object.
//
//   void OnBegin(const char* name) { pitot::BeginScope(pitot::Intern(name)); }
//   void OnEnd() { pitot::EndScope(); }
//
// They are scopes like PITOT_SCOPE's, on the same stack of the thread. Dumps show them while they are open. They end on
// the thread where they began, the newest first. If a block is available, PITOT_SCOPE is cheaper.
#ifndef PITOT_MANUAL_H_
#define PITOT_MANUAL_H_

#include "pitot/export.h"
#include "pitot/trace.h"

PITOT_NAMESPACE_BEGIN

// Begins a scope of the calling thread. A site must have no arguments and must stay valid. A scope inside 62 open
// scopes is not recorded, and is counted in Stats::events_refused.
// Cost: a scope plus a call.
// Threads: any.
PITOT_EXPORT void BeginScope(Name name) noexcept;
PITOT_EXPORT void BeginScope(const Site* site) noexcept;
// Ends the newest scope begun in this way on the calling thread. Does nothing without one (recording started in
// between).
PITOT_EXPORT void EndScope() noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_MANUAL_H_
