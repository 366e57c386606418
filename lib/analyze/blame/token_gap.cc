// SPDX-License-Identifier: Apache-2.0
#include "analyze/blame/token_gap.h"

#include <algorithm>
#include <cstdlib>

#include "analyze/blame/index_data.h"
#include "base/columns.h"

namespace pitot::blame {

using model::Interval;
using model::kNone;
using model::TokenRow;
using model::Trace;

namespace {

// For times from two clock readings: a request records its first token's time relative to its own beginning.
constexpr int64_t kSameNs = 1'000;

}  // namespace

bool IsFirstToken(const Trace& trace, uint32_t token) {
  const TokenRow& row = trace.tokens[token];
  const model::RequestRow& request = trace.requests[row.request];
  return request.begin_known && request.first_token_ns != 0 &&
         std::abs(request.begin_ns + request.first_token_ns - row.at_ns) <= kSameNs;
}

std::optional<Interval> TimeBefore(const Index& index, uint32_t token) {
  const Trace& trace = index.trace;
  const TokenRow& row = trace.tokens[token];
  if (IsFirstToken(trace, token)) return Interval{trace.requests[row.request].begin_ns, row.at_ns};
  const model::RowRange tokens = index.requests.Tokens(row.request);
  const uint32_t* const at = std::lower_bound(tokens.begin(), tokens.end(), token);
  if (at == tokens.begin()) return std::nullopt;
  return Interval{trace.tokens[*(at - 1)].at_ns, row.at_ns};
}

uint32_t IterationOf(const Index& index, uint32_t token) {
  const TokenRow& row = index.trace.tokens[token];
  const auto* const begin = index.memberships.begin(row.request);
  const auto* const after = std::partition_point(begin, index.memberships.end(row.request),
                                                 [&](const Membership& in) { return in.join_ns < row.at_ns; });
  return after != begin && row.at_ns <= (after - 1)->latest_leave_ns ? (after - 1)->batch : kNone;
}

uint32_t TokenBucket(const Index& index, uint32_t token) {
  const Trace& trace = index.trace;
  if (IsFirstToken(trace, token)) return trace.requests[trace.tokens[token].request].size_bucket;
  const uint32_t batch = IterationOf(index, token);
  uint32_t bucket = 0;
  for (uint32_t members = batch != kNone ? trace.batches[batch].member_count : 0; members != 0; members /= 2) ++bucket;
  return bucket;
}

LikeKey LikenessOfToken(const Index& index, uint32_t token) {
  const model::StringId route = index.trace.requests[index.trace.tokens[token].request].route;
  const bool is_first = IsFirstToken(index.trace, token);
  return {is_first ? model::NormKind::kFirstToken : model::NormKind::kTokenGap, route, TokenBucket(index, token)};
}

std::string IterationText(const Index& index, uint32_t token) {
  const Trace& trace = index.trace;
  const uint32_t batch = IterationOf(index, token);
  if (batch == kNone) return "";
  const model::BatchRow& row = trace.batches[batch];
  uint32_t prompts = 0;
  for (uint32_t m = row.first_member; m < row.first_member + row.member_count; ++m) {
    const uint32_t request = trace.members[m].request;
    if (request == kNone) continue;
    const model::RequestRow& member = trace.requests[request];
    prompts += member.first_token_ns == 0 || member.begin_ns + member.first_token_ns > row.begin_ns ? 1 : 0;
  }
  return "in an iteration of " + std::string(trace.strings[row.executor]) + " with " +
         base::Plural(row.member_count, "member") + ", " + std::to_string(prompts) + " of them without a token yet";
}

}  // namespace pitot::blame
