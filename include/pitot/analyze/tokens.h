// SPDX-License-Identifier: Apache-2.0
//
// Explains why a token was late. The time from the previous output token (for the first one, from the request's
// arrival) is walked and blamed like a request (pitot/analyze/why.h). It is then compared with the time before other
// tokens of the trace. `pitot why`, and the judge in a host, use it for an incident about a late token.
#ifndef PITOT_ANALYZE_TOKENS_H_
#define PITOT_ANALYZE_TOKENS_H_

#include <stdint.h>

#include "pitot/analyze/baseline.h"
#include "pitot/analyze/judgement.h"
#include "pitot/analyze/verdict.h"
#include "pitot/analyze/why.h"
#include "pitot/export.h"
#include "pitot/model/trace.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// The subject of a verdict: the time before a token, or without a token the whole request.
struct Asked {
  uint32_t request = model::kNone;  // the token's, if there is one
  uint32_t token = model::kNone;    // a row of Trace::tokens
};

// Fills `asked` with the subject of an incident. If its first cause was a late token, that is the latest of all tokens
// that fired a trigger of the same name, measured from the token before. Otherwise it is the request of
// ChooseRequest(trace, 0).
// Errors: kInvalidArgument (the index was not made), kNotFound (no request began and ended in the trace),
//   kResourceExhausted (BlameOptions::is_over), kInternal.
// Cost: O(log n) of the tokens for each firing.
PITOT_EXPORT Status ChooseAsked(const BlameIndex& index, Asked* asked) noexcept;

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

// Judges the time before that token by other tokens of the trace; a process keeps only requests. Makes the index if it
// was not made yet.
// Errors: those of BlameIndex::Make, FindTokenBlame, LearnTokens and FindVerdict.
PITOT_EXPORT Status JudgeToken(const model::Trace& trace, uint32_t token, Judgement* judgement) noexcept;

// JudgeToken of its token, or without one JudgeRequest of its request.
PITOT_EXPORT Status JudgeAsked(const model::Trace& trace, const Asked& asked, const Baseline* kept,
                               Judgement* judgement) noexcept;

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_TOKENS_H_
