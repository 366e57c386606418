// SPDX-License-Identifier: Apache-2.0
//
// A baseline from the trace itself, where none was kept.
#include <algorithm>
#include <map>
#include <new>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "analyze/index_data.h"
#include "pitot/analyze/verdict.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

using model::RequestRow;
using model::Trace;

// Requests that are normal, as far as one can tell without a walk, and what walks of them said.
struct Learned::Data {
  explicit Data(const Index& index) : trace(index.trace) {
    std::unordered_set<uint64_t> fired;  // ids
    for (const model::FiringRow& firing : trace.firings) fired.insert(firing.request_id);
    for (uint32_t row = 0; row < trace.requests.size(); ++row) {
      const RequestRow& request = trace.requests[row];
      if (!request.begin_known || !request.end_known || request.outcome != Outcome::kOk || request.duration_ns <= 0 ||
          fired.count(request.id) != 0)
        continue;
      of_cell[{request.route, request.size_bucket}].push_back(row);
      of_route[request.route].push_back(row);
      if (!index.IsPart(request)) of_all.push_back(row);  // parts of requests are no requests of a route
    }
    for (auto& [cell, rows] : of_cell) SortByEnd(&rows);
    for (auto& [route, rows] : of_route) SortByEnd(&rows);
    SortByEnd(&of_all);
  }
  int64_t End(uint32_t row) const { return trace.RequestEnd(trace.requests[row]); }
  void SortByEnd(std::vector<uint32_t>* rows) const {
    std::stable_sort(rows->begin(), rows->end(), [&](uint32_t a, uint32_t b) { return End(a) < End(b); });
  }

  struct Walked {
    bool is_reliable = false;
    BaselineRow row;
  };
  const Trace& trace;
  std::map<std::pair<model::StringId, uint32_t>, std::vector<uint32_t>> of_cell;  // by end
  std::map<model::StringId, std::vector<uint32_t>> of_route;
  std::vector<uint32_t> of_all;
  std::unordered_map<uint32_t, Walked> walked;
};

Learned::Learned() noexcept = default;
Learned::~Learned() = default;
Learned::Learned(Learned&& other) noexcept = default;
Learned& Learned::operator=(Learned&& other) noexcept = default;

namespace {

constexpr size_t kMostOfALevel = 512;

class Learner {
 public:
  Learner(const BlameIndex& index, uint32_t request, Learned::Data* learned, Baseline* baseline)
      : index_(index), trace_(learned->trace), request_(request), learned_(*learned), baseline_(baseline) {}

  // Adds those of `rows` (by end) that are not yet there and that ended nearest to the request; in the order of rows.
  Status Add(const std::vector<uint32_t>& rows) {
    const int64_t end_ns = learned_.End(request_);
    auto after =
        std::partition_point(rows.begin(), rows.end(), [&](uint32_t row) { return learned_.End(row) < end_ns; });
    auto before = after;
    std::vector<uint32_t> nearest;
    while (nearest.size() < kMostOfALevel && (before != rows.begin() || after != rows.end())) {
      const bool is_before = after == rows.end() || (before != rows.begin() && end_ns - learned_.End(*(before - 1)) <=
                                                                                   learned_.End(*after) - end_ns);
      const uint32_t row = is_before ? *--before : *after++;
      if (row != request_ && known_.insert(row).second) nearest.push_back(row);
    }
    std::sort(nearest.begin(), nearest.end());
    for (const uint32_t row : nearest) {
      if (Status status = AddOne(row); !status.ok()) return status;
    }
    return Status();
  }
  uint32_t added() const { return added_; }

 private:
  Status AddOne(uint32_t row) {
    const auto [found, is_new] = learned_.walked.try_emplace(row);
    Learned::Data::Walked& walked = found->second;
    if (is_new) {
      RequestBlame blame;
      if (Status status = FindBlame(index_, row, &blame); !status.ok()) {
        learned_.walked.erase(found);
        return status;
      }
      walked = {blame.is_reliable, {0, blame.blame, WorkOf(index_, blame)}};
    }
    if (!walked.is_reliable) return Status();
    BaselineRow normal = walked.row;
    normal.at_ns = learned_.End(request_);  // all count as of the moment of the request: a window is short
    ++added_;
    const RequestRow& request = trace_.requests[row];
    return baseline_->Add(trace_.strings[request.route], request.size_bucket, normal);
  }

  const BlameIndex& index_;
  const Trace& trace_;
  const uint32_t request_;
  Learned::Data& learned_;
  Baseline* const baseline_;
  std::unordered_set<uint32_t> known_;  // rows
  uint32_t added_ = 0;
};

}  // namespace

Status LearnBaseline(const BlameIndex& index, uint32_t request, const VerdictOptions& options, Baseline* baseline,
                     Learned* learned) noexcept {
  if (index.data() == nullptr) return Status(StatusCode::kInvalidArgument, "index: was not made");
  const Trace& trace = index.data()->index.trace;
  if (request >= trace.requests.size()) return Status(StatusCode::kInvalidArgument, "request: there is no such row");
  try {
    Learned of_this;
    if (learned == nullptr) learned = &of_this;
    if (learned->data == nullptr) learned->data = std::make_unique<Learned::Data>(index.data()->index);
    const RequestRow& like = trace.requests[request];
    Learner learner(index, request, learned->data.get(), baseline);
    Status status = learner.Add(learned->data->of_cell[{like.route, like.size_bucket}]);
    if (status.ok() && learner.added() < options.least) status = learner.Add(learned->data->of_route[like.route]);
    if (status.ok() && learner.added() < options.least) status = learner.Add(learned->data->of_all);
    return status;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory to learn what is normal");
  } catch (...) {
    return Status(StatusCode::kInternal, "what is normal could not be learnt");
  }
}

}  // namespace analyze
PITOT_NAMESPACE_END
