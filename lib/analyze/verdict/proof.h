// SPDX-License-Identifier: Apache-2.0
//
// What the walk proves of a cause, where that makes a difference to the advice (advice.cc).
#ifndef PITOT_LIB_ANALYZE_VERDICT_PROOF_H_
#define PITOT_LIB_ANALYZE_VERDICT_PROOF_H_

#include "analyze/blame/walk.h"
#include "pitot/analyze/verdict.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// Whether a segment is of a thread that neither slept nor was switched, and got no CPU time all the same.
bool IsStolen(const model::Trace& trace, const BlameSegment& segment);

// Whether a segment is of a thread that was in a scope which had not ended, and nothing says whether it ran.
bool IsUnseen(const BlameSegment& segment);

// Whether a request slept most of the time that it slept in waits that the program recorded: what for it says, and not
// who had that.
bool IsNamedSleep(const model::Trace& trace, const RequestBlame& blame);

// Of `verdict` it reads `more_of`.
Proof ProofOf(const Index& index, const RequestBlame& blame, const Cause& cause, const Verdict& verdict);

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_VERDICT_PROOF_H_
