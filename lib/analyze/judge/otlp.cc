// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/otlp.h"

#include <string>

#include "pitot/analyze/judgement.h"
#include "pitot/analyze/verdict.h"

PITOT_NAMESPACE_BEGIN
namespace {

// For one trace. Its requests share the index.
struct OtlpJudging {
  analyze::Judgement judgement;
  uint32_t left;  // verdicts
};

// OtlpOptions::judge.
bool JudgeSpan(void* context, const model::Trace& trace, uint32_t request, OtlpVerdict* verdict) {
  auto& [judgement, left] = *static_cast<OtlpJudging*>(context);
  const model::RequestRow& row = trace.requests[request];
  if (left == 0 || !row.begin_known || !row.end_known) return false;
  if (!JudgeRequest(trace, request, nullptr, &judgement).ok()) return false;
  --left;
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
  JudgedOtlp(const OtlpOptions& options, uint32_t most_verdicts) : most_verdicts_(most_verdicts) {
    OtlpOptions judged = options;
    judged.judge = JudgeSpan;
    judged.judge_context = &judging_;
    spans_ = MakeOtlpSerializer(judged);
  }
  bool ok() const { return spans_ != nullptr; }
  const char* FileName() const noexcept override { return spans_->FileName(); }
  Status Serialize(const model::Trace& trace, ByteSink& sink) override {
    judging_ = {{}, most_verdicts_};
    const Status status = spans_->Serialize(trace, sink);
    judging_ = {};
    return status;
  }

 private:
  const uint32_t most_verdicts_;
  OtlpJudging judging_{};
  std::unique_ptr<Serializer> spans_;
};

}  // namespace

std::unique_ptr<Serializer> MakeJudgedOtlpSerializer(const OtlpOptions& options, uint32_t most_verdicts) noexcept try {
  auto judged = std::make_unique<JudgedOtlp>(options, most_verdicts);
  if (!judged->ok()) return nullptr;
  return judged;
} catch (...) {  // no memory
  return nullptr;
}

PITOT_NAMESPACE_END
