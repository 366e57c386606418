// SPDX-License-Identifier: Apache-2.0
#include "analyze/blame/stays.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "analyze/blame/mixed_work.h"
#include "analyze/facts/arguments.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/quality.h"
#include "base/quantile.h"
#include "pitot/request.h"

namespace pitot::blame {

using model::kNone;
using model::NormKind;

namespace {

constexpr size_t kMostWalked = 32;  // of like things, for a median of each part
constexpr uint32_t kLeastLike = 8;  // needed for a usual median

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

LikeKey LikenessOf(const model::Trace& trace, const model::BatchRow& batch) {
  if (const double work = WorkOf(trace, batch); work > 0)
    return {NormKind::kBatchOfWork, batch.executor, PowerOfTwo(work)};
  if (batch.close == static_cast<uint8_t>(BatchClose::kStep))
    return {NormKind::kBatchOfAboutMembers, batch.executor, PowerOfTwo(batch.member_count)};
  return {NormKind::kBatchOfMembers, batch.executor, batch.member_count};
}

Norms::Norms(const Index& index) : index_(index) {
  for (const model::NormRow& row : index.trace.norms) {
    if (row.count < kLeastLike) continue;
    Norm norm;
    norm.count = row.count;
    norm.total_ns = row.total_ns;
    norm.has_parts = model::HasParts(row.kind);
    norm.is_kept = true;
    for (const model::NormPart& part : row.parts) {
      if (part.blame < kBlames) norm.parts.ns[part.blame] = part.ns;
    }
    kept_[{{row.kind, row.name, row.much}, row.depth}] = norm;
  }
}

template <class OfTrace> const Norm& Norms::Choose(const Key& key, const OfTrace& of_trace) {
  const auto [at, is_new] = chosen_.try_emplace(key);
  if (!is_new) return at->second;
  const auto kept = kept_.find(key);
  const uint32_t known = kept != kept_.end() ? kept->second.count : 0;
  if (known < kMostWalked) at->second = of_trace();
  if (at->second.count < known) at->second = kept->second;
  return at->second;
}

void Norms::FindLike() {
  if (std::exchange(has_like_, true)) return;
  const model::Trace& trace = index_.trace;
  for (uint32_t row = 0; row < trace.batches.size(); ++row) {
    const model::BatchRow& batch = trace.batches[row];
    if (batch.thread == kNone || batch.duration_ns <= 0) continue;
    alike_[LikenessOf(trace, batch)].push_back(row);
    alike_[{NormKind::kBatchClosed, batch.executor, batch.close}].push_back(row);
    alike_[{NormKind::kBatch, batch.executor, 0}].push_back(row);
  }
}

const BlameVector& Norms::WalkOf(uint32_t batch) {
  const auto [at, is_new] = walks_.try_emplace(batch);
  if (!is_new) return at->second;
  const model::BatchRow& row = index_.trace.batches[batch];
  return at->second = WalkStay(index_, {row.thread, batch, kNone, {row.begin_ns, index_.trace.BatchEnd(row)}}).blame;
}

Norm Norms::OfWalks(const LikeKey& like) {
  FindLike();
  const std::vector<uint32_t>& rows = alike_[like];
  if (rows.size() <= kLeastLike) return {};  // it may be one of them
  std::vector<BlameVector> walks;
  for (const uint32_t other : Spread(rows)) walks.push_back(WalkOf(other));
  return MedianOf(walks);
}
const Norm& Norms::OfLike(const LikeKey& like, Depth depth) {
  return Choose({like, depth}, [&] { return OfWalks(like); });
}

Norm Norms::OfBatch(uint32_t batch) {
  const model::BatchRow& row = index_.trace.batches[batch];
  const Depth depth = facts::DepthOf(index_.trace, row.begin_ns, index_.trace.BatchEnd(row));
  Norm norm = OfLike(LikenessOf(index_.trace, row), depth);
  if (norm.count == 0) norm = OfLike({NormKind::kBatch, row.executor, 0}, depth);
  if (norm.count == 0) return norm;
  const Norm& closed = OfLike({NormKind::kBatchClosed, row.executor, row.close}, depth);
  const int64_t longer_ns = closed.parts[Blame::kBatchWindow] - norm.parts[Blame::kBatchWindow];
  norm.parts[Blame::kBatchWindow] += std::max<int64_t>(longer_ns, 0);
  norm.total_ns += std::max<int64_t>(longer_ns, 0);
  return norm;
}

const Norm& Norms::OfRequest(uint32_t request) {
  const model::Trace& trace = index_.trace;
  const model::RequestRow& row = trace.requests[request];
  const Depth depth = facts::DepthOf(trace, row.begin_ns, trace.RequestEnd(row));
  return Choose({{NormKind::kRequest, row.route, row.size_bucket}, depth}, [&]() -> Norm {
    std::vector<uint32_t> rows;
    for (uint32_t other = 0; other < trace.requests.size(); ++other) {
      const model::RequestRow& one = trace.requests[other];
      if (one.route == row.route && one.size_bucket == row.size_bucket && one.begin_known && one.end_known &&
          one.duration_ns > 0)
        rows.push_back(other);
    }
    if (rows.size() <= kLeastLike) return {};
    std::vector<BlameVector> walks;
    for (const uint32_t other : Spread(rows)) {
      RequestBlame blame;
      if (Walk(index_, other, &blame).Run()) walks.push_back(blame.blame);
    }
    return MedianOf(walks);
  });
}

// Lengths do not depend on the depth.
const Norm& Norms::OfHold(model::StringId lock) {
  return Choose({{NormKind::kHold, lock, 0}, Depth::kScopes}, [&] {
    std::vector<int64_t> lengths;
    for (const model::Interval& hold : index_.locks.Holds(lock)) lengths.push_back(hold.end_ns - hold.begin_ns);
    return MedianOf(lengths);
  });
}

const Norm& Norms::OfScope(uint32_t event) {
  const model::Trace& trace = index_.trace;
  const model::StringId name = facts::EventNameId(trace, event);
  return Choose({{NormKind::kScope, name, 0}, Depth::kScopes}, [&] {
    std::vector<int64_t> lengths;
    for (uint32_t other = 0; other < trace.events.size(); ++other) {
      if (other != event && trace.events.duration_ns[other] > 0 &&
          model::IsScope(trace.sites[trace.events.site[other]].kind) && facts::EventNameId(trace, other) == name)
        lengths.push_back(trace.events.duration_ns[other]);
    }
    return MedianOf(lengths);
  });
}

const Norm& Norms::OfQueue(model::StringId queue) {
  return Choose({{NormKind::kQueue, queue, 0}, Depth::kScopes}, [&] {
    std::vector<int64_t> lengths;
    for (const model::HandoffRow& row : index_.trace.handoffs) {
      if (row.queue == queue && row.take_ns > row.enqueue_ns) lengths.push_back(row.take_ns - row.enqueue_ns);
    }
    if (lengths.size() <= kLeastLike) return Norm();  // the one in question is among them
    return MedianOf(lengths);
  });
}

}  // namespace pitot::blame
