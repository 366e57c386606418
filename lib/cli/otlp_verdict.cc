// SPDX-License-Identifier: Apache-2.0
#include "cli/otlp_verdict.h"

#include "pitot/analyze/judgement.h"
#include "pitot/analyze/verdict.h"

namespace pitot::cli {

bool JudgeForOtlp(void*, const model::Trace& trace, uint32_t request, OtlpVerdict* verdict) {
  const model::RequestRow& row = trace.requests[request];
  if (!row.begin_known || !row.end_known) return false;
  analyze::Judgement judgement;
  if (!JudgeRequest(trace, request, nullptr, &judgement).ok()) return false;
  verdict->kind = VerdictKindName(judgement.verdict.kind);
  verdict->sentence = VerdictSentence(judgement.index, judgement.blame, judgement.verdict);
  verdict->typical_ns = judgement.verdict.typical_ns;
  for (const analyze::Cause& cause : judgement.verdict.causes) {
    const int64_t begin_ns = cause.longest.empty() ? row.begin_ns : judgement.blame.segments[cause.longest[0]].begin_ns;
    verdict->causes.push_back({BlameName(cause.blame), EvidenceText(judgement.index, judgement.blame, cause),
                               cause.advice.text, begin_ns, cause.lost_ns, cause.confidence});
  }
  return true;
}

}  // namespace pitot::cli
