// SPDX-License-Identifier: Apache-2.0
//
// A baseline from the trace itself, where none was kept.
#include <algorithm>
#include <new>
#include <unordered_set>

#include "analyze/index_data.h"
#include "pitot/analyze/verdict.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {
namespace {

constexpr size_t kMostOfALevel = 512;

class Learner {
 public:
  Learner(const BlameIndex& index, uint32_t request, Baseline* baseline)
      : index_(index), trace_(index.data()->index.trace), request_(request), baseline_(baseline) {
    for (const model::FiringRow& firing : trace_.firings) fired_.insert(firing.request_id);
  }

  // Adds requests of which `is_like` is true, the nearest first; returns how many there are now.
  template <class IsLike> Status Add(const IsLike& is_like) {
    std::vector<uint32_t> rows;
    for (uint32_t row = 0; row < trace_.requests.size(); ++row) {
      if (IsNormal(row) && known_.count(row) == 0 && is_like(trace_.requests[row])) rows.push_back(row);
    }
    const auto distance = [&](uint32_t row) {
      return std::abs(trace_.RequestEnd(trace_.requests[row]) - trace_.RequestEnd(trace_.requests[request_]));
    };
    if (rows.size() > kMostOfALevel) {
      const auto last = rows.begin() + kMostOfALevel;
      std::nth_element(rows.begin(), last, rows.end(),
                       [&](uint32_t a, uint32_t b) { return distance(a) < distance(b); });
      rows.erase(last, rows.end());
      std::sort(rows.begin(), rows.end());
    }
    for (const uint32_t row : rows) {
      known_.insert(row);
      RequestBlame blame;
      if (Status status = FindBlame(index_, row, &blame); !status.ok()) return status;
      if (!blame.is_reliable) continue;
      const model::RequestRow& request = trace_.requests[row];
      // All count as of the moment of the request: a window is short.
      const BaselineRow normal{trace_.RequestEnd(trace_.requests[request_]), blame.blame, WorkOf(index_, blame)};
      if (Status status = baseline_->Add(trace_.strings[request.route], request.size_bucket, normal); !status.ok())
        return status;
      ++added_;
    }
    return Status();
  }
  uint32_t added() const { return added_; }

 private:
  bool IsNormal(uint32_t row) const {
    const model::RequestRow& request = trace_.requests[row];
    return row != request_ && request.begin_known && request.end_known && request.outcome == Outcome::kOk &&
           request.duration_ns > 0 && fired_.count(request.id) == 0;
  }

  const BlameIndex& index_;
  const model::Trace& trace_;
  const uint32_t request_;
  Baseline* const baseline_;
  std::unordered_set<uint64_t> fired_;  // ids
  std::unordered_set<uint32_t> known_;  // rows
  uint32_t added_ = 0;
};

}  // namespace

Status LearnBaseline(const BlameIndex& index, uint32_t request, const VerdictOptions& options,
                     Baseline* baseline) noexcept {
  if (index.data() == nullptr) return Status(StatusCode::kInvalidArgument, "index: was not made");
  const model::Trace& trace = index.data()->index.trace;
  if (request >= trace.requests.size()) return Status(StatusCode::kInvalidArgument, "request: there is no such row");
  try {
    const model::RequestRow& like = trace.requests[request];
    Learner learner(index, request, baseline);
    Status status = learner.Add(
        [&](const model::RequestRow& row) { return row.route == like.route && row.size_bucket == like.size_bucket; });
    if (status.ok() && learner.added() < options.least)
      status = learner.Add([&](const model::RequestRow& row) { return row.route == like.route; });
    // Parts of requests are no requests of a route.
    if (status.ok() && learner.added() < options.least)
      status = learner.Add([&](const model::RequestRow& row) { return !index.data()->index.IsPart(row); });
    return status;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory to learn what is normal");
  } catch (...) {
    return Status(StatusCode::kInternal, "what is normal could not be learnt");
  }
}

}  // namespace analyze
PITOT_NAMESPACE_END
