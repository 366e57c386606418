// SPDX-License-Identifier: Apache-2.0
//
// The stage with the largest difference from usual.
#include <map>
#include <vector>

#include "analyze/verdict/tree.h"
#include "base/quantile.h"

namespace pitot::verdict {

namespace {

constexpr size_t kLeastForMedian = 8;  // needed for a usual median
// The nearest in the trace; each verdict looks for them.
constexpr size_t kMostLike = 256, kMostLooked = 8192;

// The time in each stage; a stage may occur several times.
std::map<model::StringId, int64_t> StagesOf(const model::RequestRow& row) {
  std::map<model::StringId, int64_t> stages;
  for (const model::Stage& stage : row.stages) stages[stage.name] += stage.duration_ns > 0 ? stage.duration_ns : 0;
  return stages;
}

}  // namespace

void FindStage(const blame::Index& index, const RequestBlame& blame, Verdict* verdict) {
  const model::RequestRow& row = index.trace.requests[blame.request];
  if (verdict->kind == VerdictKind::kNotUnusual || blame.token != model::kNone || row.stages.empty()) return;
  std::map<model::StringId, std::vector<int64_t>> usual;
  size_t like = 0;
  const std::vector<model::RequestRow>& all = index.trace.requests;
  const auto look = [&](size_t at) {
    const model::RequestRow& other = all[at];
    if (other.route != row.route || other.size_bucket != row.size_bucket || !other.begin_known || !other.end_known)
      return;
    ++like;
    for (const auto& [name, ns] : StagesOf(other)) usual[name].push_back(ns);
  };
  for (size_t far = 1; far <= kMostLooked / 2 && like < kMostLike; ++far) {
    if (far <= blame.request) look(blame.request - far);
    if (blame.request + far < all.size()) look(blame.request + far);
  }
  int64_t most_ns = -1;
  for (const auto& [name, ns] : StagesOf(row)) {
    std::vector<int64_t>& lengths = usual[name];
    lengths.resize(like);  // 0 in those without the stage
    const bool is_known = like >= kLeastForMedian;
    const int64_t usual_ns = is_known ? base::Median(lengths) : 0;
    if (ns - usual_ns <= most_ns) continue;
    most_ns = ns - usual_ns;
    verdict->stage = {name, ns, is_known ? usual_ns : -1};
  }
}

}  // namespace pitot::verdict
