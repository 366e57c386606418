// SPDX-License-Identifier: Apache-2.0
//
// The main culprit of a cause, and the place of its time.
#ifndef PITOT_LIB_ANALYZE_VERDICT_CAUSE_EVIDENCE_H_
#define PITOT_LIB_ANALYZE_VERDICT_CAUSE_EVIDENCE_H_

#include "analyze/blame/walk.h"
#include "analyze/verdict/namespace.h"
#include "pitot/analyze/verdict.h"

namespace pitot::verdict {

// Fills `by`, `by_ns`, `longest`, `place_ns` and `stacks` of a cause with known blame and blame_ns. Throws
// std::bad_alloc. Cost: O(n log n) of the request's segments.
void FindEvidence(const blame::Index& index, const RequestBlame& blame, Cause* cause);

}  // namespace pitot::verdict

#endif  // PITOT_LIB_ANALYZE_VERDICT_CAUSE_EVIDENCE_H_
