// SPDX-License-Identifier: Apache-2.0
//
// Explains why a token was late. The time from the previous output token (for the first one, from the request's
// arrival) is walked and blamed like a request (pitot/analyze/why.h). It is then compared with the time before other
// tokens. `pitot why`, and the judge in a host, use it for an incident about a late token.
#ifndef PITOT_ANALYZE_TOKENS_H_
#define PITOT_ANALYZE_TOKENS_H_

#include <stdint.h>

#include "pitot/analyze/asked.h"
#include "pitot/analyze/baseline.h"
#include "pitot/analyze/judgement.h"
#include "pitot/analyze/verdict.h"
#include "pitot/analyze/why.h"
#include "pitot/export.h"
#include "pitot/model/trace.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// Returns the row that holds a request's `number`th token, counted from 1; model::kNone: not in the trace.
// Cost: O(n) of the tokens.
PITOT_EXPORT uint32_t TokenOf(const model::Trace& trace, uint32_t request, uint64_t number) noexcept;

// Adds comparable tokens' times to `baseline`, which must hold nothing else. First tokens are compared with first
// tokens of requests of the route, later ones with later ones. From each iteration (batch) one token is taken, at most
// 256, the nearest. Tokens that a trigger fired for are left out, and so is time that overlaps the asked token's. Cells
// are those of the requests' sizes; for later tokens they are the number of members in the iteration: 1, 2 to 3, 4 to 7
// and so on.
// Errors: as FindTokenBlame and Baseline::Add.
// Cost: a walk of each, and at most O(n log n) to find them.
PITOT_EXPORT Status LearnTokens(const BlameIndex& index, uint32_t token, Baseline* baseline) noexcept;

// Judges the time before that token: by other tokens of the trace, or by those that the process had learned before it
// (Trace::norms), whichever are nearer in size, then more. Makes the index if it was not made yet.
// Errors: those of BlameIndex::Make, FindTokenBlame, LearnTokens and FindVerdict.
PITOT_EXPORT Status JudgeToken(const model::Trace& trace, uint32_t token, Judgement* judgement) noexcept;

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_TOKENS_H_
