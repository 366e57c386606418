// SPDX-License-Identifier: Apache-2.0
#include "analyze/verdict/verdict_others.h"

namespace pitot::verdict {

namespace {

constexpr size_t kLeastOthers = 20;  // needed for a usual median
constexpr uint32_t kLeastMeanwhile = 3;
constexpr int64_t kLeastExcess = 1'000'000;  // of a request, to be mentioned

// Requests that ended near it may have been slow for the same reason. Then they are no measure, and the trace shows it.
void FindLike(const blame::Index& index, const RequestBlame& blame, Verdict* verdict) {
  const blame::Usual::Lengths like = index.usual.OfRequest(blame.request);
  if (like.count < kLeastOthers || verdict->typical_ns / 3 < like.median_ns / 2) return;
  verdict->like = like.count;
  verdict->like_median_ns = like.median_ns;
}

// A delay of all requests in flight is a matter of the moment, not of one request.
void FindMeanwhile(const blame::Index& index, const RequestBlame& blame, Verdict* verdict) {
  const int64_t excess_ns = verdict->latency_ns - verdict->typical_ns;
  if (verdict->kind == VerdictKind::kNotUnusual || excess_ns < kLeastExcess) return;
  const model::RequestRow& request = index.trace.requests[blame.request];
  uint32_t meanwhile = 0, slow = 0;
  for (const model::RequestRow& row : index.trace.requests) {
    if (row.route != request.route || row.size_bucket != request.size_bucket || row.duration_ns < 0 ||
        !row.begin_known || &row == &request || row.begin_ns >= blame.end_ns ||
        index.trace.RequestEnd(row) <= blame.begin_ns)
      continue;
    ++meanwhile;
    slow += row.duration_ns - verdict->typical_ns >= excess_ns / 2 ? 1 : 0;
  }
  if (meanwhile < kLeastMeanwhile || 2 * slow < meanwhile) return;
  verdict->meanwhile = meanwhile;
  verdict->meanwhile_slow = slow;
}

}  // namespace

void FindOthers(const blame::Index& index, const RequestBlame& blame, Verdict* verdict) noexcept {
  if (verdict->level == Baseline::Level::kNone || blame.token != model::kNone) return;
  FindLike(index, blame, verdict);
  FindMeanwhile(index, blame, verdict);
}

}  // namespace pitot::verdict
