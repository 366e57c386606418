// SPDX-License-Identifier: Apache-2.0
//
// Who had most of a cause's time, and where it was.
#ifndef PITOT_LIB_ANALYZE_VERDICT_CAUSE_EVIDENCE_H_
#define PITOT_LIB_ANALYZE_VERDICT_CAUSE_EVIDENCE_H_

#include "pitot/analyze/verdict.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// Fills `by`, `by_ns`, `longest` and `place_ns` of a cause whose blame and blame_ns are known. Throws std::bad_alloc.
// Cost: O(n log n) of the request's segments.
void FindEvidence(const model::Trace& trace, const RequestBlame& blame, Cause* cause);

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_VERDICT_CAUSE_EVIDENCE_H_
