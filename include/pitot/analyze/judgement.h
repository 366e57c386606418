// SPDX-License-Identifier: Apache-2.0
//
// Why was this request slow: the whole way from a trace to a verdict, in one call. `pitot why` and the judge in a host
// take it.
#ifndef PITOT_ANALYZE_JUDGEMENT_H_
#define PITOT_ANALYZE_JUDGEMENT_H_

#include <stdint.h>

#include "pitot/analyze/baseline.h"
#include "pitot/analyze/learn.h"
#include "pitot/analyze/verdict.h"
#include "pitot/analyze/why.h"
#include "pitot/export.h"
#include "pitot/model/trace.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// Returns the row of the request with the id. For id 0 it is the slowest request that a trigger fired for; without such
// firings, the slowest that began and ended in the trace. model::kNone: there is none, or those that fired were lost.
PITOT_EXPORT uint32_t ChooseRequest(const model::Trace& trace, uint64_t id) noexcept;

struct Judgement {
  BlameIndex index;
  RequestBlame blame;
  Verdict verdict;
  Learned learned;  // from the trace, for the next request
};

// Judges the request of that row, by `kept` (null: nothing is kept) if it knows enough requests of that route and size.
// Otherwise other requests of the trace are used, if they tell more. Makes the index if it was not made yet.
// Errors: those of BlameIndex::Make, FindBlame, LearnBaseline and FindVerdict.
PITOT_EXPORT Status JudgeRequest(const model::Trace& trace, uint32_t request, const Baseline* kept,
                                 Judgement* judgement) noexcept;

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_JUDGEMENT_H_
