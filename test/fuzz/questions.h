// SPDX-License-Identifier: Apache-2.0
//
// What is asked of a trace that was read from any bytes: why its requests were slow. Blame adds up, and no row crashes.
#ifndef PITOT_TEST_FUZZ_QUESTIONS_H_
#define PITOT_TEST_FUZZ_QUESTIONS_H_

#include <stdint.h>

#include <string>

#include "fuzz/fuzz.h"
#include "pitot/analyze/judge.h"
#include "pitot/analyze/verdict.h"

namespace fuzz {

// Walks and judges the first eight requests.
inline void AskWhy(const pitot::model::Trace& trace) {
  namespace analyze = pitot::analyze;
  analyze::Judgement judgement;
  for (uint32_t row = 0; row < trace.requests.size() && row < 8; ++row) {
    const pitot::Status status = JudgeRequest(trace, row, nullptr, &judgement);
    const bool is_whole = status.ok() || status.code() == pitot::StatusCode::kNotFound;
    Require(is_whole, "judging", status.message());
    if (!status.ok()) continue;
    const analyze::RequestBlame& blame = judgement.blame;
    const analyze::Verdict& v = judgement.verdict;
    Require(blame.blame.Total() == blame.end_ns - blame.begin_ns, "blame", "does not add up to the latency");
    int64_t sum_ns = v.typical_ns + v.common_ns + v.rest_ns;
    for (const analyze::Cause& cause : v.causes) sum_ns += cause.excess_ns;
    Require(v.level == analyze::Baseline::Level::kNone || sum_ns == v.latency_ns, "the verdict", "does not add up");
    Require(!VerdictText(judgement.index, blame, v).empty(), "the verdict", "has no words");
    Require(!VerdictJson(judgement.index, blame, v).empty(), "the verdict", "has no JSON");
  }
}

}  // namespace fuzz

#endif  // PITOT_TEST_FUZZ_QUESTIONS_H_
