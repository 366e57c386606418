// SPDX-License-Identifier: Apache-2.0
#include "analyze/blame/prompts.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "base/quantile.h"

namespace pitot::blame {

using model::kNone;
using model::Trace;

namespace {

// Fewer like iterations have no usual time.
constexpr size_t kLeastIterations = 8;
// An iteration this many times as long as one without prompts needs a reason.
constexpr double kLong = 2;
// A prompt may take up to twice the usual time of its length. One so much longer than the others has no usual time.
constexpr double kMostOfUsual = 2, kMuchLonger = 4;
// Prompts usually lengthen iterations if the lower quartile of those with prompts is this far above the upper quartile
// of those without. Otherwise only a much longer prompt is a reason, for an iteration of kLong.
constexpr double kUsuallyLonger = 1.2;

struct Iteration {
  uint32_t batch;
  uint32_t prompts = 0, largest = kNone;
  double work = 0, largest_work = 0;
  bool is_work_known = true;
  double beyond_ns = 0;  // the usual time of one without prompts
};

// The first token's time; INT64_MAX: none yet.
int64_t FirstTokenNs(const model::RequestRow& row) {
  return row.first_token_ns == 0 ? INT64_MAX : row.begin_ns + row.first_token_ns;
}

bool IsPrompt(const Trace& trace, const model::MemberRow& member) {
  return member.request != kNone && FirstTokenNs(trace.requests[member.request]) > trace.batches[member.batch].begin_ns;
}

// Without the requests of executors that never put out tokens.
std::vector<Iteration> FindIterations(const Trace& trace) {
  std::vector<uint32_t> prompts_of(trace.requests.size());  // iterations that read its prompt
  for (const model::MemberRow& member : trace.members) {
    if (IsPrompt(trace, member)) ++prompts_of[member.request];
  }
  std::map<model::StringId, bool> has_tokens;
  for (const model::MemberRow& member : trace.members) {
    if (member.request != kNone && trace.requests[member.request].first_token_ns != 0)
      has_tokens[trace.batches[member.batch].executor] = true;
  }
  std::vector<Iteration> iterations;
  for (uint32_t batch = 0; batch < trace.batches.size(); ++batch) {
    const model::BatchRow& row = trace.batches[batch];
    if (row.duration_ns <= 0 || !has_tokens[row.executor]) continue;
    Iteration iteration{batch};
    for (uint32_t m = row.first_member; m < row.first_member + row.member_count; ++m) {
      const model::MemberRow& member = trace.members[m];
      if (!IsPrompt(trace, member)) continue;
      const model::RequestRow& request = trace.requests[member.request];
      const double size = !request.sizes.empty() && std::isfinite(request.sizes[0].value) ? request.sizes[0].value : 0;
      const double work = size / prompts_of[member.request];
      ++iteration.prompts;
      iteration.is_work_known &= size > 0;
      iteration.work += work;
      if (iteration.largest != kNone && work <= iteration.largest_work) continue;
      iteration.largest = member.request;
      iteration.largest_work = work;
    }
    iterations.push_back(iteration);
  }
  return iterations;
}

// The usual time of an iteration without prompts, by executor and number of members (its power of two), and of any
// number.
class WithoutPrompts {
 public:
  WithoutPrompts(const Trace& trace, const std::vector<Iteration>& iterations) : trace_(trace) {
    std::map<Key, std::vector<int64_t>> lengths;
    for (const Iteration& iteration : iterations) {
      if (iteration.prompts != 0) continue;
      const model::BatchRow& row = trace.batches[iteration.batch];
      lengths[KeyOf(row)].push_back(row.duration_ns);
      lengths[{row.executor, kAny}].push_back(row.duration_ns);
    }
    for (auto& [key, ns] : lengths) {
      if (ns.size() < kLeastIterations) continue;
      usual_[key] = base::Median(ns);
      if (key.second == kAny) long_ns_[key.first] = base::Quantile(std::move(ns), 0.75);
    }
  }
  // The upper quartile, with any number of members; 0: not known.
  int64_t LongNs(model::StringId executor) const {
    const auto found = long_ns_.find(executor);
    return found != long_ns_.end() ? found->second : 0;
  }
  // 0: not known. A prompt is one member more than the iteration would have had.
  int64_t UsualNs(const Iteration& iteration) const {
    const model::BatchRow& row = trace_.batches[iteration.batch];
    const uint32_t others = row.member_count - std::min(row.member_count, iteration.prompts);
    for (const Key& key : {Key{row.executor, Bucket(others)}, Key{row.executor, kAny}}) {
      if (const auto found = usual_.find(key); found != usual_.end()) return found->second;
    }
    return 0;
  }

 private:
  using Key = std::pair<model::StringId, uint32_t>;
  static constexpr uint32_t kAny = UINT32_MAX;
  static uint32_t Bucket(uint32_t members) { return static_cast<uint32_t>(std::bit_width(members)); }
  static Key KeyOf(const model::BatchRow& row) { return {row.executor, Bucket(row.member_count)}; }

  const Trace& trace_;
  std::map<Key, int64_t> usual_;
  std::map<model::StringId, int64_t> long_ns_;  // by executor
};

// Iterations of an executor with prompts.
struct PromptsLike {
  std::vector<double> works, lengths_ns, beyond_ns, ns_of_work;
};

// What they say of one.
struct UsualPrompt {
  double work = 0, ns_of_work = 0, most_beyond_ns = 0;
  bool is_known = false, are_works_known = false;
  bool is_longer = false;  // than without prompts
};

UsualPrompt UsualPromptOf(PromptsLike like, int64_t long_without_ns) {
  UsualPrompt usual;
  usual.is_known = like.beyond_ns.size() >= kLeastIterations;
  usual.are_works_known = like.works.size() >= kLeastIterations;
  const double short_ns = base::Quantile(std::move(like.lengths_ns), 0.25);
  usual.is_longer = usual.is_known && short_ns >= kUsuallyLonger * static_cast<double>(long_without_ns);
  usual.most_beyond_ns = base::Quantile(std::move(like.beyond_ns), 0.9);
  if (!usual.are_works_known) return usual;
  usual.work = base::Median(std::move(like.works));
  usual.ns_of_work = base::Median(std::move(like.ns_of_work));
  return usual;
}

struct TimeOfPrompts {
  double ns = 0;
  bool is_unsure = false;
};

// The time that an iteration took for its prompts.
TimeOfPrompts TakenBy(const Iteration& iteration, const UsualPrompt& usual, bool is_long) {
  if (iteration.is_work_known && usual.are_works_known) {
    if (iteration.work >= kMuchLonger * usual.work) return {usual.is_longer || is_long ? iteration.beyond_ns : 0};
    if (!usual.is_longer) return {};
    return {std::min(iteration.beyond_ns, kMostOfUsual * usual.ns_of_work * iteration.work)};
  }
  if (usual.is_longer && iteration.beyond_ns <= usual.most_beyond_ns) return {iteration.beyond_ns};
  return {0, is_long};
}

}  // namespace

Prompts::Prompts(const Trace& trace) : of_(trace.batches.size()) {
  if (trace.tokens.empty()) return;
  std::vector<Iteration> iterations = FindIterations(trace);
  const WithoutPrompts without(trace, iterations);
  std::map<model::StringId, PromptsLike> likes;
  for (Iteration& iteration : iterations) {
    const int64_t usual_ns = without.UsualNs(iteration);
    if (iteration.prompts == 0 || usual_ns == 0) continue;
    const model::BatchRow& row = trace.batches[iteration.batch];
    iteration.beyond_ns = static_cast<double>(std::max<int64_t>(row.duration_ns - usual_ns, 0));
    PromptsLike& like = likes[row.executor];
    like.beyond_ns.push_back(iteration.beyond_ns);
    like.lengths_ns.push_back(static_cast<double>(row.duration_ns));
    if (!iteration.is_work_known) continue;
    like.works.push_back(iteration.work);
    like.ns_of_work.push_back(iteration.beyond_ns / iteration.work);
  }
  std::map<model::StringId, UsualPrompt> usuals;
  for (auto& [executor, like] : likes) usuals[executor] = UsualPromptOf(std::move(like), without.LongNs(executor));
  for (const Iteration& iteration : iterations) {
    if (iteration.beyond_ns <= 0) continue;
    const model::BatchRow& row = trace.batches[iteration.batch];
    const auto length_ns = static_cast<double>(row.duration_ns);
    const bool is_long = length_ns >= kLong * (length_ns - iteration.beyond_ns);
    const TimeOfPrompts taken = TakenBy(iteration, usuals[row.executor], is_long);
    of_[iteration.batch] = {iteration.largest, taken.ns / length_ns, taken.is_unsure, iteration.is_work_known};
  }
}

}  // namespace pitot::blame
