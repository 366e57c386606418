// SPDX-License-Identifier: Apache-2.0
//
// Learns usual times: of batches, tokens, holds of locks, stays in queues, GPU work and scopes.
#include <algorithm>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "analyze/blame/index_data.h"
#include "analyze/blame/stays.h"
#include "analyze/blame/token_gap.h"
#include "analyze/facts/arguments.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/quality.h"
#include "analyze/verdict/ordinary.h"
#include "pitot/analyze/learn.h"
#include "pitot/analyze/verdict.h"

namespace pitot::verdict {

using blame::LikeKey;
using model::Interval;
using model::kNone;
using model::NormKind;
using model::Trace;

namespace {

constexpr size_t kMostOfAKind = 2, kMostBatches = 64, kMostNames = 16;
constexpr size_t kTokensOfAKind = 4, kTokensWalked = 64;

// The first of each kind, by a hash.
using Drawn = std::vector<std::pair<uint64_t, uint32_t>>;
void Draw(size_t most, Drawn* drawn) {
  const size_t count = std::min(drawn->size(), most);
  std::partial_sort(drawn->begin(), drawn->begin() + static_cast<std::ptrdiff_t>(count), drawn->end());
  drawn->resize(count);
}

// A length without parts.
BaselineRow AsRow(Interval time) {
  BaselineRow row;
  row.at_ns = time.end_ns;
  row.blame[Blame::kUntraced] = time.end_ns - time.begin_ns;
  return row;
}

class StayLearner {
 public:
  StayLearner(const BlameIndex& index, const LearnOptions& options, Baseline* baseline)
      : of_(index),
        index_(index.data()->index),
        trace_(index_.trace),
        options_(options),
        time_(trace_, options),
        baseline_(*baseline) {}

  Status Learn() {
    Status status = LearnTokens();
    if (status.ok()) status = LearnBatches();
    if (status.ok()) status = LearnHolds();
    if (status.ok()) status = LearnLongest(NormKind::kQueue, [this](const auto& visit) { ForQueues(visit); });
    if (status.ok()) status = LearnLongest(NormKind::kGpuWork, [this](const auto& visit) { ForGpuWork(visit); });
    if (status.ok()) status = LearnLongest(NormKind::kScope, [this](const auto& visit) { ForScopes(visit); });
    return status;
  }

 private:
  Status LearnBatches() {
    std::map<LikeKey, Drawn> kinds;
    for (uint32_t row = 0; row < trace_.batches.size(); ++row) {
      const model::BatchRow& batch = trace_.batches[row];
      if (batch.thread == kNone || batch.duration_ns <= 0 || !time_.Has(batch.begin_ns, trace_.BatchEnd(batch)))
        continue;
      kinds[blame::LikenessOf(trace_, batch)].emplace_back(SpreadId(batch.id), row);
    }
    for (const auto& [hash, row] : DrawOfAll(kMostOfAKind, kMostBatches, &kinds)) {
      EndIfOver();
      if (Status status = LearnBatch(trace_.batches[row], row); !status.ok()) return status;
    }
    return Status();
  }

  Status LearnBatch(const model::BatchRow& batch, uint32_t row) {
    const Interval when = {batch.begin_ns, trace_.BatchEnd(batch)};
    const RequestBlame walk = blame::WalkStay(index_, {batch.thread, row, kNone, when});
    if (!walk.is_reliable) return Status();
    const BaselineRow normal = {when.end_ns, walk.blame, {}};
    const Depth depth = facts::DepthOf(trace_, when.begin_ns, when.end_ns);
    for (const LikeKey& like :
         {blame::LikenessOf(trace_, batch), LikeKey{NormKind::kBatchClosed, batch.executor, batch.close},
          LikeKey{NormKind::kBatch, batch.executor, 0}}) {
      const Status status = baseline_.AddStay(trace_.strings[like.name], {like.kind, depth, like.much}, normal);
      if (!status.ok()) return status;
    }
    return Status();
  }

  Status LearnTokens() {
    std::map<LikeKey, Drawn> kinds;
    std::set<std::pair<LikeKey, uint32_t>> iterations;
    for (uint32_t token = 0; token < trace_.tokens.size(); ++token) {
      Count();
      if (!IsOrdinary(token)) continue;
      const LikeKey like = blame::LikenessOfToken(index_, token);
      const model::RequestRow& request = trace_.requests[trace_.tokens[token].request];
      const uint32_t batch = like.kind == NormKind::kTokenGap ? blame::IterationOf(index_, token) : kNone;
      // Tokens of an iteration's members are late together, so they count as one.
      if (batch != kNone && !iterations.emplace(like, batch).second) continue;
      const auto at_ns = static_cast<uint64_t>(trace_.tokens[token].at_ns);
      kinds[like].emplace_back(SpreadId(batch != kNone ? trace_.batches[batch].id : request.id ^ at_ns), token);
    }
    for (const auto& [hash, token] : DrawOfAll(kTokensOfAKind, kTokensWalked, &kinds)) {
      EndIfOver();
      if (Status status = LearnToken(token); !status.ok()) return status;
    }
    return Status();
  }
  bool IsOrdinary(uint32_t token) const {
    if (trace_.tokens[token].request == kNone) return false;
    const model::RequestRow& request = trace_.requests[trace_.tokens[token].request];
    if (request.end_known && request.outcome != Outcome::kOk) return false;
    const std::optional<Interval> time = blame::TimeBefore(index_, token);
    return time && time->begin_ns < time->end_ns && time_.Has(time->begin_ns, time->end_ns);
  }

  Status LearnToken(uint32_t token) {
    RequestBlame blame;
    const Status found = FindTokenBlame(of_, token, &blame);
    if (found.code() == StatusCode::kNotFound || (found.ok() && !blame.is_reliable)) return Status();
    if (!found.ok()) return found;
    const BaselineRow normal = {blame.end_ns, blame.blame, WorkOf(of_, blame)};
    const LikeKey like = blame::LikenessOfToken(index_, token);
    return baseline_.AddStay(trace_.strings[like.name], {like.kind, normal.work.depth, like.much}, normal);
  }

  // At most so many of each kind, and in all.
  static Drawn DrawOfAll(size_t most_of_a_kind, size_t most, std::map<LikeKey, Drawn>* kinds) {
    Drawn all;
    for (auto& [like, drawn] : *kinds) {
      Draw(most_of_a_kind, &drawn);
      all.insert(all.end(), drawn.begin(), drawn.end());
    }
    Draw(most, &all);
    return all;
  }

  // Lengths do not depend on the depth.
  Status AddLengths(const LikeKey& like, std::vector<Interval> times) {
    EndIfOver();
    const auto is_other = [&](const Interval& time) {
      Count();
      return !time_.Has(time.begin_ns, time.end_ns);
    };
    times.erase(std::remove_if(times.begin(), times.end(), is_other), times.end());
    Drawn drawn;
    for (uint32_t i = 0; i < times.size(); ++i) {
      Count();
      drawn.emplace_back(SpreadId(static_cast<uint64_t>(times[i].begin_ns)), i);
    }
    Draw(kMostOfAKind, &drawn);
    for (const auto& [hash, i] : drawn) {
      const Status status =
          baseline_.AddStay(trace_.strings[like.name], {like.kind, Depth::kScopes, like.much}, AsRow(times[i]));
      if (!status.ok()) return status;
    }
    return Status();
  }

  Status LearnHolds() {
    for (const model::StringId lock : index_.locks.Held()) {
      EndIfOver();
      if (Status status = AddLengths({NormKind::kHold, lock, 0}, index_.locks.Holds(lock)); !status.ok()) return status;
    }
    return Status();
  }

  // Those with most time. Two passes of `for_each`: the intervals of all names would take much memory.
  template <class ForEach> Status LearnLongest(NormKind kind, const ForEach& for_each) {
    using Name = std::pair<model::StringId, uint32_t>;  // and its `much`
    EndIfOver();
    std::map<Name, int64_t> sums_ns;
    for_each([&](const Name& name, Interval time) { sums_ns[name] += time.end_ns - time.begin_ns; });
    std::vector<std::pair<int64_t, Name>> longest;
    for (const auto& [name, sum_ns] : sums_ns) longest.emplace_back(-sum_ns, name);
    std::sort(longest.begin(), longest.end());
    if (longest.size() > kMostNames) longest.resize(kMostNames);
    std::map<Name, std::vector<Interval>> chosen;
    for (const auto& [ns, name] : longest) chosen[name];
    for_each([&](const Name& name, Interval time) {
      if (const auto at = chosen.find(name); at != chosen.end()) at->second.push_back(time);
    });
    for (const auto& [ns, name] : longest) {
      if (Status s = AddLengths({kind, name.first, name.second}, std::move(chosen[name])); !s.ok()) return s;
    }
    return Status();
  }
  template <class Visit> void ForQueues(const Visit& visit) {
    for (const model::HandoffRow& row : trace_.handoffs) {
      Count();
      if (row.take_ns > row.enqueue_ns) visit({row.queue, 0}, {row.enqueue_ns, row.take_ns});
    }
  }
  template <class Visit> void ForGpuWork(const Visit& visit) {
    for (uint32_t op = 0; op < trace_.gpu.size(); ++op) {
      Count();
      if (trace_.gpu.kind[op] != model::GpuKind::kKernel && !index_.gpu.IsSpan(op)) continue;
      visit({trace_.gpu.name[op], index_.gpu.LikeNumber(op)}, index_.gpu.TimeOf(op));
    }
  }
  template <class Visit> void ForScopes(const Visit& visit) {
    for (uint32_t event = 0; event < trace_.events.size(); ++event) {
      Count();
      const SiteKind kind = trace_.sites[trace_.events.site[event]].kind;
      if (trace_.events.duration_ns[event] <= 0 || !model::IsScope(kind) || kind == SiteKind::kWait ||
          kind == SiteKind::kOperator)
        continue;
      visit({facts::EventNameId(trace_, event), 0}, {trace_.events.begin_ns[event], trace_.EventEnd(event)});
    }
  }

  void Count() {
    patience_.Count();
    budget_.Count();
  }
  void EndIfOver() const {
    if (options_.is_over != nullptr && options_.is_over(options_.is_over_context)) throw facts::Over{};
  }

  const BlameIndex& of_;
  const blame::Index& index_;
  const Trace& trace_;
  const LearnOptions& options_;
  const OrdinaryTime time_;
  Baseline& baseline_;
  facts::Patience patience_{index_.options.is_over, index_.options.is_over_context};
  facts::Patience budget_{options_.is_over, options_.is_over_context};
};

}  // namespace
}  // namespace pitot::verdict

PITOT_NAMESPACE_BEGIN
namespace analyze {

Status LearnStays(const BlameIndex& index, const LearnOptions& options, Baseline* baseline) noexcept {
  if (index.data() == nullptr) return Status(StatusCode::kInvalidArgument, "index: not built");
  try {
    return verdict::StayLearner(index, options, baseline).Learn();
  } catch (const facts::Over&) {
    return Status(StatusCode::kResourceExhausted, "no time left to learn what is usual");
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory to learn what is usual");
  } catch (...) {
    return Status(StatusCode::kInternal, "what is usual could not be learned");
  }
}

}  // namespace analyze
PITOT_NAMESPACE_END
