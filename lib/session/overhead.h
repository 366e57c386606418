// SPDX-License-Identifier: Apache-2.0
//
// The part of an incident about its depth: how deep its requests were recorded, why, and at what cost.
#ifndef PITOT_LIB_SESSION_OVERHEAD_H_
#define PITOT_LIB_SESSION_OVERHEAD_H_

#include "pitot/depth.h"
#include "pitot/model/trace.h"
#include "session/incident.h"

namespace pitot::session {

// Adds the depth, its reason, and its cost, as far as it was measured. `fixed` is the host's depth, or kAuto. Adds
// nothing if nothing governs. May throw bad_alloc.
void AddOverhead(const Incident& incident, Depth fixed, double budget_percent, model::Trace* trace);

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_OVERHEAD_H_
