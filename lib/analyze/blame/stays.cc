// SPDX-License-Identifier: Apache-2.0
#include "analyze/blame/stays.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "analyze/blame/mixed_work.h"
#include "analyze/facts/arguments.h"
#include "analyze/facts/patience.h"
#include "base/quantile.h"
#include "pitot/request.h"

namespace pitot::blame {

using model::kNone;

namespace {

constexpr size_t kMostWalked = 32;  // of like things, for a median of each part
constexpr uint32_t kLeastLike = 8;  // needed for a usual median

enum class Likeness : uint32_t { kWork, kMembers, kAboutMembers, kAny };

// At most kMostWalked of them, from all over the trace: those near an incident are slow, too.
std::vector<uint32_t> Spread(const std::vector<uint32_t>& rows) {
  const size_t count = std::min(rows.size(), kMostWalked);
  std::vector<uint32_t> spread;
  for (size_t i = 0; i < count; ++i) spread.push_back(rows[i * rows.size() / count]);
  return spread;
}

uint32_t PowerOfTwo(double value) {
  return value < 1 ? 0 : static_cast<uint32_t>(std::min(std::log2(value), 62.0)) + 1;
}

// All work that its members brought; 0 if it is not known of each.
double WorkOf(const model::Trace& trace, const model::BatchRow& batch) {
  double work = 0;
  for (uint32_t m = batch.first_member; m < batch.first_member + batch.member_count; ++m) {
    const double one = GivenWork(trace.members[m]);
    if (one <= 0) return 0;
    work += one;
  }
  return work;
}

Norm MedianOf(const std::vector<int64_t>& lengths) {
  if (lengths.size() < kLeastLike) return {};
  Norm norm;
  norm.count = static_cast<uint32_t>(lengths.size());
  norm.total_ns = base::Median(lengths);
  return norm;
}

Norm MedianOf(const std::vector<BlameVector>& walks) {
  std::vector<int64_t> lengths;
  for (const BlameVector& walk : walks) lengths.push_back(walk.Total());
  Norm norm = MedianOf(lengths);
  if (norm.count == 0) return norm;
  norm.has_parts = true;
  for (uint32_t k = 0; k < kBlames; ++k) {
    for (size_t i = 0; i < walks.size(); ++i) lengths[i] = walks[i].ns[k];
    norm.parts.ns[k] = base::Median(lengths);
  }
  return norm;
}

}  // namespace

RequestBlame WalkStay(const Index& index, const Stay& stay) {
  // Short walks do not ask themselves.
  if (index.options.is_over != nullptr && index.options.is_over(index.options.is_over_context)) throw facts::Over{};
  RequestBlame blame;
  Walk(index, stay, &blame).Run();
  return blame;
}

void Norms::FindLike() {
  if (std::exchange(has_like_, true)) return;
  const model::Trace& trace = index_.trace;
  for (uint32_t row = 0; row < trace.batches.size(); ++row) {
    const model::BatchRow& batch = trace.batches[row];
    const double work = WorkOf(trace, batch);
    const bool is_step = batch.close == static_cast<uint8_t>(BatchClose::kStep);
    const auto of = [&](Likeness likeness, uint32_t much) {
      return LikeKey{batch.executor, static_cast<uint32_t>(likeness), much};
    };
    like_.push_back(work > 0  ? of(Likeness::kWork, PowerOfTwo(work))
                    : is_step ? of(Likeness::kAboutMembers, PowerOfTwo(batch.member_count))
                              : of(Likeness::kMembers, batch.member_count));
    if (batch.thread == kNone || batch.duration_ns <= 0) continue;
    alike_[like_.back()].push_back(row);
    alike_[of(Likeness::kAny, 0)].push_back(row);
  }
}

const BlameVector& Norms::WalkOf(uint32_t batch) {
  const auto [at, is_new] = walks_.try_emplace(batch);
  if (!is_new) return at->second;
  const model::BatchRow& row = index_.trace.batches[batch];
  return at->second = WalkStay(index_, {row.thread, batch, kNone, {row.begin_ns, index_.trace.BatchEnd(row)}}).blame;
}

const Norm& Norms::OfBatch(uint32_t batch) {
  FindLike();
  const LikeKey any = {index_.trace.batches[batch].executor, static_cast<uint32_t>(Likeness::kAny), 0};
  for (const LikeKey& key : {like_[batch], any}) {
    const std::vector<uint32_t>& rows = alike_[key];
    if (rows.size() <= kLeastLike) continue;  // it may be one of them
    const auto [at, is_new] = batches_.try_emplace(key);
    if (!is_new) return at->second;
    std::vector<BlameVector> walks;
    for (const uint32_t other : Spread(rows)) walks.push_back(WalkOf(other));
    return at->second = MedianOf(walks);
  }
  return none_;
}

const Norm& Norms::OfRequest(uint32_t request) {
  const model::RequestRow& row = index_.trace.requests[request];
  const auto [at, is_new] = requests_.try_emplace({row.route, row.size_bucket});
  if (!is_new) return at->second;
  std::vector<uint32_t> rows;
  for (uint32_t other = 0; other < index_.trace.requests.size(); ++other) {
    const model::RequestRow& one = index_.trace.requests[other];
    if (one.route == row.route && one.size_bucket == row.size_bucket && one.begin_known && one.end_known &&
        one.duration_ns > 0)
      rows.push_back(other);
  }
  std::vector<BlameVector> walks;
  for (const uint32_t other : Spread(rows)) {
    RequestBlame blame;
    if (Walk(index_, other, &blame).Run()) walks.push_back(blame.blame);
  }
  if (rows.size() > kLeastLike) at->second = MedianOf(walks);
  return at->second;
}

const Norm& Norms::OfHold(model::StringId lock) {
  const auto [at, is_new] = holds_.try_emplace(lock);
  if (is_new) at->second = MedianOf(index_.locks.HoldsNs(lock));
  return at->second;
}

const Norm& Norms::OfScope(uint32_t event) {
  const model::Trace& trace = index_.trace;
  const model::StringId name = facts::EventNameId(trace, event);
  const auto [at, is_new] = scopes_.try_emplace(name);
  if (!is_new) return at->second;
  std::vector<int64_t> lengths;
  for (uint32_t other = 0; other < trace.events.size(); ++other) {
    if (other != event && trace.events.duration_ns[other] > 0 &&
        model::IsScope(trace.sites[trace.events.site[other]].kind) && facts::EventNameId(trace, other) == name)
      lengths.push_back(trace.events.duration_ns[other]);
  }
  return at->second = MedianOf(lengths);
}

}  // namespace pitot::blame
