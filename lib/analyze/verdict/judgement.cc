// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/judgement.h"

#include <cstdint>
#include <new>
#include <unordered_set>

#include "analyze/verdict/two_baselines.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

namespace {

// Ids of requests that a trigger fired for; none if memory is short.
std::unordered_set<uint64_t> Fired(const model::Trace& trace) noexcept {
  try {
    std::unordered_set<uint64_t> fired;
    for (const model::FiringRow& firing : trace.firings) {
      if (firing.request_id != 0) fired.insert(firing.request_id);
    }
    return fired;
  } catch (const std::bad_alloc&) {
    return {};
  }
}

}  // namespace

uint32_t ChooseRequest(const model::Trace& trace, uint64_t id) noexcept {
  uint32_t of_fired = model::kNone, slowest = model::kNone;
  const auto lasted_ns = [&](uint32_t row) {
    return trace.RequestEnd(trace.requests[row]) - trace.requests[row].begin_ns;
  };
  const auto show = [&](uint32_t row, uint32_t* longest) {
    if (*longest == model::kNone || lasted_ns(row) > lasted_ns(*longest)) *longest = row;
  };
  const std::unordered_set<uint64_t> fired = Fired(trace);
  for (uint32_t row = 0; row < trace.requests.size(); ++row) {
    const model::RequestRow& request = trace.requests[row];
    if (id != 0 && request.id == id) return row;
    if (!request.begin_known) continue;
    if (fired.count(request.id) != 0) show(row, &of_fired);
    if (request.end_known) show(row, &slowest);
  }
  if (id != 0) return model::kNone;
  // Never another request in place of a lost one.
  return of_fired != model::kNone || !fired.empty() ? of_fired : slowest;
}

Status JudgeRequest(const model::Trace& trace, uint32_t request, const Baseline* kept, Judgement* judgement) noexcept {
  Status status;
  if (judgement->index.data() == nullptr) status = BlameIndex::Make(trace, BlameOptions(), &judgement->index);
  if (status.ok()) status = FindBlame(judgement->index, request, &judgement->blame);
  if (!status.ok()) return status;
  const auto learn = [&](Baseline* others) {
    return LearnBaseline(judgement->index, request, VerdictOptions(), others, &judgement->learned);
  };
  status = verdict::FindByEither(kept, trace.RequestEnd(trace.requests[request]), learn, judgement);
  if (!status.ok() || judgement->verdict.level != Baseline::Level::kNone || judgement->learned.why_few.empty())
    return status;
  try {
    judgement->verdict.why_not = judgement->learned.why_few;
    return Status();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory for the verdict");
  }
}

}  // namespace analyze
PITOT_NAMESPACE_END
