// SPDX-License-Identifier: Apache-2.0
#include "cli/judge.h"

namespace pitot::cli {

using model::kNone;
using model::Trace;

uint32_t ChooseRequest(const Trace& trace, uint64_t id) {
  const auto row_of = [&](uint64_t of) {
    for (uint32_t row = 0; row < trace.requests.size(); ++row) {
      if (trace.requests[row].id == of) return row;
    }
    return kNone;
  };
  if (id != 0) return row_of(id);
  for (const model::FiringRow& firing : trace.firings) {
    const uint32_t row = firing.request_id != 0 ? row_of(firing.request_id) : kNone;
    if (row != kNone && trace.requests[row].begin_known) return row;
  }
  uint32_t slowest = kNone;
  for (uint32_t row = 0; row < trace.requests.size(); ++row) {
    const model::RequestRow& request = trace.requests[row];
    if (!request.begin_known || !request.end_known) continue;
    if (slowest == kNone || request.duration_ns > trace.requests[slowest].duration_ns) slowest = row;
  }
  return slowest;
}

Status Judge(const Trace& trace, const analyze::BlameIndex& index, uint32_t request, analyze::RequestBlame* blame,
             analyze::Verdict* verdict) {
  const analyze::VerdictOptions options;
  analyze::Baseline baseline;
  Status status = FindBlame(index, request, blame);
  if (status.ok()) status = LearnBaseline(index, request, options, &baseline);
  if (!status.ok()) return status;
  const int64_t now_ns = trace.RequestEnd(trace.requests[request]);
  return FindVerdict(index, *blame, baseline, now_ns, options, verdict);
}

Status Judge(const Trace& trace, uint32_t request, Judgement* judgement) {
  const Status status = analyze::BlameIndex::Make(trace, analyze::BlameOptions(), &judgement->index);
  return status.ok() ? Judge(trace, judgement->index, request, &judgement->blame, &judgement->verdict) : status;
}

}  // namespace pitot::cli
