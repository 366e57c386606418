// SPDX-License-Identifier: Apache-2.0
//
// The verdict on a request of a dump, by the other requests in it.
#ifndef PITOT_LIB_CLI_JUDGE_H_
#define PITOT_LIB_CLI_JUDGE_H_

#include <cstdint>

#include "pitot/analyze/verdict.h"
#include "pitot/model/trace.h"

namespace pitot::cli {

// The row of the request that is asked about: with the id; of id 0 the one that the first firing is about, else the
// slowest that began and ended in the trace. kNone: there is none.
uint32_t ChooseRequest(const model::Trace& trace, uint64_t id);

struct Judgement {
  analyze::BlameIndex index;
  analyze::RequestBlame blame;
  analyze::Verdict verdict;
};
// Errors: those of FindBlame, LearnBaseline and FindVerdict.
Status Judge(const model::Trace& trace, uint32_t request, Judgement* judgement);
// The same with an index that was made before, for many requests.
Status Judge(const model::Trace& trace, const analyze::BlameIndex& index, uint32_t request,
             analyze::RequestBlame* blame, analyze::Verdict* verdict);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_JUDGE_H_
