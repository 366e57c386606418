// SPDX-License-Identifier: Apache-2.0
#include "cli/otlp_verdict.h"

#include "pitot/analyze/judgement.h"
#include "pitot/analyze/verdict.h"
#include "pitot/serialize/otlp.h"

namespace pitot::cli {
namespace {

// OtlpOptions::judge; `context` is the analyze::Judgement of the trace, whose index all requests share.
bool Judge(void* context, const model::Trace& trace, uint32_t request, OtlpVerdict* verdict) {
  const model::RequestRow& row = trace.requests[request];
  if (!row.begin_known || !row.end_known) return false;
  auto& judgement = *static_cast<analyze::Judgement*>(context);
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

class JudgedOtlp final : public Serializer {
 public:
  const char* FileName() const noexcept override { return OtlpOptions().file_name; }
  Status Serialize(const model::Trace& trace, ByteSink& sink) override {
    analyze::Judgement judgement;
    OtlpOptions options;
    options.judge = Judge;
    options.judge_context = &judgement;
    return MakeOtlpSerializer(options)->Serialize(trace, sink);
  }
};

}  // namespace

std::unique_ptr<Serializer> MakeJudgedOtlp() { return std::make_unique<JudgedOtlp>(); }

}  // namespace pitot::cli
