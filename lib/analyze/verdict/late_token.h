// SPDX-License-Identifier: Apache-2.0
//
// The late token of an incident.
#ifndef PITOT_LIB_ANALYZE_VERDICT_LATE_TOKEN_H_
#define PITOT_LIB_ANALYZE_VERDICT_LATE_TOKEN_H_

#include <cstdint>

#include "analyze/blame/walk.h"
#include "analyze/verdict/namespace.h"

namespace pitot::verdict {

// Its row; kNone: the first firing is not of a late token, or the token is not in the trace. Throws facts::Over.
uint32_t ChooseToken(const blame::Index& index);

}  // namespace pitot::verdict

#endif  // PITOT_LIB_ANALYZE_VERDICT_LATE_TOKEN_H_
