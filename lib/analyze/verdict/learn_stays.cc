// SPDX-License-Identifier: Apache-2.0
//
// Learns the usual times of culprits: batches, holds of locks, scopes.
#include <algorithm>
#include <map>
#include <new>
#include <utility>
#include <vector>

#include "analyze/blame/index_data.h"
#include "analyze/blame/stays.h"
#include "analyze/facts/arguments.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/quality.h"
#include "analyze/verdict/ordinary.h"
#include "pitot/analyze/learn.h"

namespace pitot::verdict {

using blame::LikeKey;
using model::Interval;
using model::kNone;
using model::NormKind;
using model::Trace;

namespace {

constexpr size_t kMostOfAKind = 2, kMostBatches = 64, kMostScopeNames = 16;

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
  StayLearner(const blame::Index& index, const LearnOptions& options, Baseline* baseline)
      : index_(index), trace_(index.trace), options_(options), time_(trace_, options), baseline_(*baseline) {}

  Status Learn() {
    Status status = LearnBatches();
    if (status.ok()) status = LearnHolds();
    return status.ok() ? LearnScopes() : status;
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
    Drawn all;
    for (auto& [like, drawn] : kinds) {
      Draw(kMostOfAKind, &drawn);
      all.insert(all.end(), drawn.begin(), drawn.end());
    }
    Draw(kMostBatches, &all);
    for (const auto& [hash, row] : all) {
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

  // Lengths do not depend on the depth.
  Status AddLengths(NormKind kind, model::StringId name, std::vector<Interval> times) {
    const auto is_other = [&](const Interval& time) { return !time_.Has(time.begin_ns, time.end_ns); };
    times.erase(std::remove_if(times.begin(), times.end(), is_other), times.end());
    Drawn drawn;
    for (uint32_t i = 0; i < times.size(); ++i)
      drawn.emplace_back(SpreadId(static_cast<uint64_t>(times[i].begin_ns)), i);
    Draw(kMostOfAKind, &drawn);
    for (const auto& [hash, i] : drawn) {
      const Status status = baseline_.AddStay(trace_.strings[name], {kind, Depth::kScopes, 0}, AsRow(times[i]));
      if (!status.ok()) return status;
    }
    return Status();
  }

  Status LearnHolds() {
    for (const model::StringId lock : index_.locks.Held()) {
      if (Status status = AddLengths(NormKind::kHold, lock, index_.locks.Holds(lock)); !status.ok()) return status;
    }
    return Status();
  }

  // Two passes: the intervals of all names would take much memory.
  Status LearnScopes() {
    std::map<model::StringId, int64_t> sums_ns;
    ForScopes([&](model::StringId name, Interval time) { sums_ns[name] += time.end_ns - time.begin_ns; });
    std::vector<std::pair<int64_t, model::StringId>> longest;
    for (const auto& [name, sum_ns] : sums_ns) longest.emplace_back(-sum_ns, name);
    std::sort(longest.begin(), longest.end());
    if (longest.size() > kMostScopeNames) longest.resize(kMostScopeNames);
    std::map<model::StringId, std::vector<Interval>> chosen;
    for (const auto& [ns, name] : longest) chosen[name];
    ForScopes([&](model::StringId name, Interval time) {
      if (const auto at = chosen.find(name); at != chosen.end()) at->second.push_back(time);
    });
    for (const auto& [ns, name] : longest) {
      if (Status s = AddLengths(NormKind::kScope, name, std::move(chosen[name])); !s.ok()) return s;
    }
    return Status();
  }
  template <class Visit> void ForScopes(const Visit& visit) {
    EndIfOver();
    facts::Patience patience(index_.options.is_over, index_.options.is_over_context);
    facts::Patience budget(options_.is_over, options_.is_over_context);
    for (uint32_t event = 0; event < trace_.events.size(); ++event) {
      patience.Count();
      budget.Count();
      const SiteKind kind = trace_.sites[trace_.events.site[event]].kind;
      if (trace_.events.duration_ns[event] <= 0 || !model::IsScope(kind) || kind == SiteKind::kWait ||
          kind == SiteKind::kOperator)
        continue;
      visit(facts::EventNameId(trace_, event), {trace_.events.begin_ns[event], trace_.EventEnd(event)});
    }
  }

  void EndIfOver() const {
    if (options_.is_over != nullptr && options_.is_over(options_.is_over_context)) throw facts::Over{};
  }

  const blame::Index& index_;
  const Trace& trace_;
  const LearnOptions& options_;
  const OrdinaryTime time_;
  Baseline& baseline_;
};

}  // namespace
}  // namespace pitot::verdict

PITOT_NAMESPACE_BEGIN
namespace analyze {

Status LearnStays(const BlameIndex& index, const LearnOptions& options, Baseline* baseline) noexcept {
  if (index.data() == nullptr) return Status(StatusCode::kInvalidArgument, "index: not built");
  try {
    return verdict::StayLearner(index.data()->index, options, baseline).Learn();
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
