// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/tokens.h"

#include <algorithm>
#include <new>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "analyze/blame/index_data.h"
#include "analyze/blame/token_gap.h"
#include "analyze/facts/patience.h"
#include "analyze/verdict/late_token.h"
#include "analyze/verdict/two_baselines.h"
#include "base/causes.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

using model::Interval;
using model::kNone;
using model::TokenRow;
using model::Trace;

namespace {

using facts::Over;
using facts::Patience;

// Size of the baseline: three eighths of them calibrate, and 96 give a p of 1 %.
constexpr size_t kMostTokens = 256;
constexpr const char* kNoTimeToLearn = "no time left to learn the baseline";

std::string_view KindOf(std::string_view cause) { return cause.substr(0, cause.find(' ')); }
bool IsOfTokens(std::string_view cause) {
  const std::string_view kind = KindOf(cause);
  return kind == base::kTokenGap || kind == base::kFirstToken;
}

// The token that a trigger fired for: the request's last by then.
uint32_t TokenOfFiring(const blame::Index& index, const model::FiringRow& firing) {
  const uint32_t request = index.requests.Row(firing.request_id);
  if (request == kNone) return kNone;
  const model::RowRange tokens = index.requests.Tokens(request);
  const uint32_t* const after = std::partition_point(
      tokens.begin(), tokens.end(), [&](uint32_t row) { return index.trace.tokens[row].at_ns <= firing.at_ns; });
  return after != tokens.begin() ? *(after - 1) : kNone;
}

bool IsOver(const BlameOptions& options) {
  return options.is_over != nullptr && options.is_over(options.is_over_context);
}

// The tokens one can be compared with, nearest first.
std::vector<uint32_t> LikeToken(const blame::Index& index, uint32_t token, Interval asked) {
  Patience patience(index.options.is_over, index.options.is_over_context);
  const Trace& trace = index.trace;
  const bool is_first = blame::IsFirstToken(trace, token);
  const model::StringId route = trace.requests[trace.tokens[token].request].route;
  std::unordered_set<uint32_t> left_out = {token};
  for (const model::FiringRow& firing : trace.firings) {
    patience.Count();
    if (IsOfTokens(trace.strings[firing.cause])) left_out.insert(TokenOfFiring(index, firing));
  }
  std::unordered_set<uint32_t> iterations;
  const auto is_like = [&](uint32_t other) {
    if (trace.requests[trace.tokens[other].request].route != route || left_out.count(other) != 0 ||
        blame::IsFirstToken(trace, other) != is_first)
      return false;
    const std::optional<Interval> time = blame::TimeBefore(index, other);
    if (!time || is_first) return time.has_value();
    if (time->begin_ns < asked.end_ns && asked.begin_ns < time->end_ns) return false;
    // Tokens of an iteration's members are late together, so they count as one.
    const uint32_t iteration = blame::IterationOf(index, other);
    return iteration == kNone || iterations.insert(iteration).second;
  };
  std::vector<uint32_t> like;
  uint32_t before = token, after = token + 1;
  const auto count = static_cast<uint32_t>(trace.tokens.size());
  while (like.size() < kMostTokens && (before != 0 || after != count)) {
    patience.Count();
    const bool is_before = after == count || (before != 0 && asked.end_ns - trace.tokens[before - 1].at_ns <=
                                                                 trace.tokens[after].at_ns - asked.end_ns);
    const uint32_t other = is_before ? --before : after++;
    if (is_like(other)) like.push_back(other);
  }
  return like;
}

// Adds tokens of its route and kind, learned before the window. All count as of the token's moment, like the window's.
Status AddKeptTokens(const blame::Index& index, uint32_t token, int64_t now_ns, Baseline* baseline) noexcept {
  const blame::LikeKey like = blame::LikenessOfToken(index, token);
  for (const model::NormRow& norm : index.trace.norms) {
    if (norm.kind != like.kind || norm.name != like.name) continue;
    BaselineRow row;
    row.at_ns = now_ns;
    row.work.depth = norm.depth;
    row.work.size = norm.work;
    int64_t left_ns = norm.total_ns;
    for (const model::NormPart& part : norm.parts) {
      if (part.blame >= kBlames || part.ns > left_ns) break;
      row.blame.ns[part.blame] += part.ns;
      left_ns -= part.ns;
    }
    if (left_ns != 0) continue;  // of a damaged dump, or of later blames
    if (Status status = baseline->Add(index.trace.strings[norm.name], norm.much, row); !status.ok()) return status;
  }
  return Status();
}

}  // namespace

uint32_t TokenOf(const Trace& trace, uint32_t request, uint64_t number) noexcept {
  if (request >= trace.requests.size()) return kNone;
  uint64_t left = trace.requests[request].output_tokens;
  for (auto token = static_cast<uint32_t>(trace.tokens.size()); token-- > 0;) {
    const TokenRow& row = trace.tokens[token];
    if (row.request != request) continue;
    if (number > left) return kNone;
    left -= std::min<uint64_t>(row.count, left);
    if (number > left) return token;
  }
  return kNone;
}

Status LearnTokens(const BlameIndex& index, uint32_t token, Baseline* baseline) noexcept {
  if (index.data() == nullptr) return Status(StatusCode::kInvalidArgument, "index: not built");
  const blame::Index& rows = index.data()->index;
  const Trace& trace = rows.trace;
  if (token >= trace.tokens.size() || trace.tokens[token].request == kNone)
    return Status(StatusCode::kInvalidArgument, "token: no such row");
  try {
    const std::optional<Interval> asked = blame::TimeBefore(rows, token);
    if (!asked) return Status(StatusCode::kNotFound, "the token before it is not in the trace");
    for (const uint32_t other : LikeToken(rows, token, *asked)) {
      if (IsOver(rows.options)) return Status(StatusCode::kResourceExhausted, kNoTimeToLearn);
      RequestBlame blame;
      if (Status status = FindTokenBlame(index, other, &blame); !status.ok()) return status;
      if (!blame.is_reliable) continue;
      // All count as of the moment of the token: a window is short.
      const BaselineRow normal = {asked->end_ns, blame.blame, WorkOf(index, blame)};
      const model::StringId route = trace.requests[trace.tokens[other].request].route;
      if (Status status = baseline->Add(trace.strings[route], blame::TokenBucket(rows, other), normal); !status.ok())
        return status;
    }
    return Status();
  } catch (const Over&) {
    return Status(StatusCode::kResourceExhausted, kNoTimeToLearn);
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory to learn the baseline");
  } catch (...) {
    return Status(StatusCode::kInternal, "the baseline could not be learned");
  }
}

Status JudgeToken(const Trace& trace, uint32_t token, Judgement* judgement) noexcept {
  Status status;
  if (judgement->index.data() == nullptr) status = BlameIndex::Make(trace, BlameOptions(), &judgement->index);
  if (status.ok()) status = FindTokenBlame(judgement->index, token, &judgement->blame);
  Baseline kept;
  if (status.ok()) status = AddKeptTokens(judgement->index.data()->index, token, judgement->blame.end_ns, &kept);
  if (!status.ok()) return status;
  const auto learn = [&](Baseline* others) { return LearnTokens(judgement->index, token, others); };
  return verdict::FindByEither(kept.size() != 0 ? &kept : nullptr, judgement->blame.end_ns, learn, judgement);
}

}  // namespace analyze
PITOT_NAMESPACE_END

namespace pitot::verdict {

uint32_t ChooseToken(const blame::Index& index) {
  const Trace& trace = index.trace;
  if (trace.firings.empty() || !IsOfTokens(trace.strings[trace.firings[0].cause])) return kNone;
  const std::string_view kind = KindOf(trace.strings[trace.firings[0].cause]);
  uint32_t latest = kNone;
  int64_t longest_ns = 0;
  Patience patience(index.options.is_over, index.options.is_over_context);
  for (const model::FiringRow& firing : trace.firings) {
    patience.Count();
    if (KindOf(trace.strings[firing.cause]) != kind) continue;
    const uint32_t token = TokenOfFiring(index, firing);
    const std::optional<Interval> time = token != kNone ? blame::TimeBefore(index, token) : std::nullopt;
    if (!time || time->end_ns - time->begin_ns <= longest_ns) continue;
    longest_ns = time->end_ns - time->begin_ns;
    latest = token;
  }
  return latest;
}

}  // namespace pitot::verdict
