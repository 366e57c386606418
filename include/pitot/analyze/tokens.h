// SPDX-License-Identifier: Apache-2.0
//
// Why was this token late: what a request did between one of its output tokens and the one before it (before the first:
// since its arrival), walked and blamed as a request is (pitot/analyze/why.h), and compared with what is between other
// tokens of the trace. What `pitot why` shows of an incident that a late token made, and the judge in a host.
#ifndef PITOT_ANALYZE_TOKENS_H_
#define PITOT_ANALYZE_TOKENS_H_

#include <stdint.h>

#include "pitot/analyze/baseline.h"
#include "pitot/analyze/judge.h"
#include "pitot/analyze/verdict.h"
#include "pitot/analyze/why.h"
#include "pitot/export.h"
#include "pitot/model/trace.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// What a verdict is asked of: the time before a token, or, without one, all of a request.
struct Asked {
  uint32_t request = model::kNone;  // of the token, where there is one
  uint32_t token = model::kNone;    // a row of Trace::tokens
};

// Fills `asked` with what an incident is about: where a late token was its first cause, of the tokens that made it, and
// others of the same name, fire, the one that is latest after the one before it; else the request of
// ChooseRequest(trace, 0). Errors: kInvalidArgument (an index that was not made), kNotFound (no request began and ended
// in the trace), kResourceExhausted (BlameOptions::is_over), kInternal. Cost: O(log n) of the tokens for each firing.
PITOT_EXPORT Status ChooseAsked(const BlameIndex& index, Asked* asked) noexcept;

// The row in which a request put out its `number`th token, counted from 1. model::kNone: the trace does not hold it.
// Cost: O(n) of the tokens.
PITOT_EXPORT uint32_t TokenOf(const model::Trace& trace, uint32_t request, uint64_t number) noexcept;

// As FindBlame, from the token before that of the row to it: RequestBlame::token says of which. Errors: those of
// FindBlame; kNotFound also where the token before it is not in the trace.
PITOT_EXPORT Status FindTokenBlame(const BlameIndex& index, uint32_t token, RequestBlame* blame) noexcept;

// Adds to `baseline`, which must hold nothing else, what is before tokens that the one of that row can be compared
// with: first tokens with first ones of requests of the route; later ones with later ones, of each iteration (batch)
// one, at most 256, the nearest, but none whose time is part of the asked one's, and none that a trigger fired for.
// Cells are those of requests' sizes, or, of later tokens, of how many members the iteration had: 1, 2 to 3, 4 to 7 and
// so on. Errors: as FindTokenBlame and Baseline::Add. Cost: a walk of each, and at most O(n log n) to find them.
PITOT_EXPORT Status LearnTokens(const BlameIndex& index, uint32_t token, Baseline* baseline) noexcept;

// The verdict on the time before that token, by other tokens of the trace: what is kept of a process is requests. Makes
// the index unless it was made. Errors: those of BlameIndex::Make, FindTokenBlame, LearnTokens and FindVerdict.
PITOT_EXPORT Status JudgeToken(const model::Trace& trace, uint32_t token, Judgement* judgement) noexcept;

// JudgeToken of its token, or without one JudgeRequest of its request.
PITOT_EXPORT Status JudgeAsked(const model::Trace& trace, const Asked& asked, const Baseline* kept,
                               Judgement* judgement) noexcept;

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_TOKENS_H_
