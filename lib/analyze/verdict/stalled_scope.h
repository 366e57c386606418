// SPDX-License-Identifier: Apache-2.0
//
// The scope of a stall, and the wait of its thread.
#ifndef PITOT_LIB_ANALYZE_VERDICT_STALLED_SCOPE_H_
#define PITOT_LIB_ANALYZE_VERDICT_STALLED_SCOPE_H_

#include <cstdint>
#include <string>

#include "analyze/blame/walk.h"
#include "analyze/verdict/namespace.h"
#include "pitot/model/trace.h"

namespace pitot::verdict {

// Whether the firing is of such a scope.
bool IsOfStalledScope(const model::Trace& trace, const model::FiringRow& firing);
// Its event; kNone: it is not in the trace. O(n) in the thread's events.
uint32_t FindStalledScope(const model::Trace& trace, const model::FiringRow& firing);

// The sentence about it. Without the event, kNone, it has the trigger's words.
std::string StalledScopeText(const blame::Index& index, uint32_t event);
// The same whenever the same stalls: "scope step on engine: lock weights, held by loader".
std::string StalledScopeSignature(const blame::Index& index, uint32_t event);

}  // namespace pitot::verdict

#endif  // PITOT_LIB_ANALYZE_VERDICT_STALLED_SCOPE_H_
