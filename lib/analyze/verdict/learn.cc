// SPDX-License-Identifier: Apache-2.0
//
// Learns a baseline from the trace itself, if none was kept.
#include <algorithm>
#include <map>
#include <new>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "analyze/blame/index_data.h"
#include "base/columns.h"
#include "base/memory_option.h"
#include "base/quantile.h"
#include "pitot/analyze/verdict.h"
#include "pitot/model/intervals.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

using model::RequestRow;
using model::Trace;

// Requests that look normal without a walk, and the results of their walks.
struct Learned::Data {
  explicit Data(const blame::Index& index) : trace(index.trace) {
    std::unordered_set<uint64_t> fired;  // ids
    for (const model::FiringRow& firing : trace.firings) fired.insert(firing.request_id);
    for (uint32_t row = 0; row < trace.requests.size(); ++row) {
      const RequestRow& request = trace.requests[row];
      if (!request.begin_known || !request.end_known || request.outcome != Outcome::kOk || request.duration_ns <= 0 ||
          fired.count(request.id) != 0)
        continue;
      of_cell[{request.route, request.size_bucket}].rows.push_back(row);
      of_route[request.route].rows.push_back(row);
      if (!index.IsPart(request)) of_all.rows.push_back(row);  // parts of requests are not requests of a route
    }
    for (auto& [cell, like] : of_cell) Finish(&like);
    for (auto& [route, like] : of_route) Finish(&like);
    Finish(&of_all);
  }
  int64_t End(uint32_t row) const { return trace.RequestEnd(trace.requests[row]); }
  int64_t MedianNs(const std::vector<uint32_t>& rows) const {
    std::vector<int64_t> lengths_ns;
    for (const uint32_t row : rows) lengths_ns.push_back(trace.requests[row].duration_ns);
    return base::Median(std::move(lengths_ns));
  }
  struct Like {
    std::vector<uint32_t> rows;  // by end
    int64_t median_ns = 0;
  };
  void Finish(Like* like) const {
    std::stable_sort(like->rows.begin(), like->rows.end(), [&](uint32_t a, uint32_t b) { return End(a) < End(b); });
    if (!like->rows.empty()) like->median_ns = MedianNs(like->rows);
  }

  struct Walked {
    bool is_reliable = false;
    bool is_lost = false;  // because of losses in its time
    BaselineRow row;
  };
  const Trace& trace;
  std::map<std::pair<model::StringId, uint32_t>, Like> of_cell;
  std::map<model::StringId, Like> of_route;
  Like of_all;
  std::unordered_map<uint32_t, Walked> walked;
  std::unordered_map<uint64_t, BaselineRow>* known = nullptr;  // Learned's
};

Learned::Learned() noexcept = default;
Learned::~Learned() = default;
Learned::Learned(Learned&& other) noexcept = default;
Learned& Learned::operator=(Learned&& other) noexcept = default;

namespace {

constexpr size_t kMostOfALevel = 512;
constexpr size_t kMostThreads = 3;  // named
constexpr double kSlowToo = 1.5;    // times the median of all
constexpr size_t kNear = 16;        // neighbours that show a slow time

class Learner {
 public:
  Learner(const BlameIndex& index, uint32_t request, uint32_t least, Learned::Data* learned, Baseline* baseline)
      : index_(index),
        trace_(learned->trace),
        request_(request),
        least_(least),
        learned_(*learned),
        baseline_(baseline) {}

  // Adds new rows of `like`: those that ended nearest to the request, in the order of rows. A delay of all of them is
  // normal for none. So a slow time around it is left out. If the nearest are slow even so, as in a backlog, it takes
  // as many from all over the trace instead.
  Status Add(const Learned::Data::Like& like) {
    const std::vector<uint32_t> outside = OutsideSlowTime(like);
    const std::vector<uint32_t>& rows = outside.empty() ? like.rows : outside;
    std::vector<uint32_t> chosen = Nearest(rows);
    const bool is_cut = chosen.size() < rows.size();
    if (is_cut && static_cast<double>(learned_.MedianNs(chosen)) > kSlowToo * static_cast<double>(like.median_ns))
      chosen = Spread(rows);
    std::sort(chosen.begin(), chosen.end());
    const BlameOptions& options = index_.data()->index.options;
    for (const uint32_t row : chosen) {
      if (row == request_ || !known_.insert(row).second) continue;
      if (options.is_over != nullptr && options.is_over(options.is_over_context))
        return Status(StatusCode::kResourceExhausted, "no time left to learn the baseline");
      if (Status status = AddOne(row); !status.ok()) return status;
    }
    return Status();
  }
  uint32_t added() const { return added_; }

  // Why fewer than `least` were added, if losses in the time of the others are the reason.
  std::string WhyFew(uint32_t least) const {
    if (added_ >= least || added_ + left_out_ < least) return "";
    const std::string of = base::Count(left_out_) + " requests to compare it with";
    std::set<uint32_t> threads;
    bool is_damaged = false, has_events = false, has_room = false;
    for (const model::LossRow& loss : trace_.losses) {
      is_damaged |= loss.reason == model::LossReason::kDamaged;
      if (loss.reason == model::LossReason::kOpenRequests || loss.reason == model::LossReason::kClosedElsewhere ||
          loss.begin_ns >= lost_.end_ns || loss.end_ns <= lost_.begin_ns)
        continue;
      has_events = true;
      if (loss.thread != model::kNone) threads.insert(loss.thread);
      has_room |= loss.reason == model::LossReason::kOverwritten || loss.reason == model::LossReason::kCopying ||
                  loss.reason == model::LossReason::kReserve;
    }
    if (is_damaged) return "the dump is damaged: events may be missing from " + of;
    if (!has_events) {
      base::MemoryOptions options;
      for (const model::GpuLossRow& loss : trace_.gpu_losses) {
        if (loss.begin_ns < lost_.end_ns && loss.end_ns > lost_.begin_ns)
          options.Add(trace_.strings[loss.reason],
                      loss.device != model::kNone ? trace_.devices[loss.device].ordinal : model::kNone);
      }
      const char* const option = options.Text();
      return "GPU records were lost during " + of +
             (option == nullptr ? "" : std::string(": give the collector more memory (") + option + ")");
    }
    std::string names;
    size_t named = 0;
    for (auto thread = threads.begin(); thread != threads.end() && named < kMostThreads; ++thread) {
      const model::ThreadRow& row = trace_.threads[*thread];
      if (++named > 1) names += named == threads.size() ? " and " : ", ";
      names += row.name == 0 ? "thread " + std::to_string(row.number) : std::string(trace_.strings[row.name]);
    }
    if (threads.size() > named) names += " and " + base::Plural(threads.size() - named, "other thread");
    return "events" + (names.empty() ? "" : " of " + names) + " were lost during " + of +
           (has_room ? ": give their rings more room (Options::memory_budget_bytes)" : "");
  }

 private:
  // Those outside of a slow time around the request: most of its neighbours were slow. Empty: it was none, or too few
  // are left.
  std::vector<uint32_t> OutsideSlowTime(const Learned::Data::Like& like) const {
    const std::vector<uint32_t>& rows = like.rows;
    const auto are_slow = [&](size_t first, size_t last) {
      const auto slow = std::count_if(rows.data() + first, rows.data() + last, [&](uint32_t row) {
        return static_cast<double>(trace_.requests[row].duration_ns) > kSlowToo * static_cast<double>(like.median_ns);
      });
      return 2 * static_cast<size_t>(slow) > last - first;
    };
    const auto after =
        std::partition_point(rows.begin(), rows.end(), [&](uint32_t row) { return learned_.End(row) < End(); });
    const auto at = static_cast<size_t>(after - rows.begin());
    size_t first = at - std::min(at, kNear / 2), last = std::min(at + kNear / 2, rows.size());
    if (!are_slow(first, last)) return {};
    while (first > 0 && (are_slow(first - 1, first) || are_slow(first - std::min(first, kNear), first))) --first;
    while (last < rows.size() && (are_slow(last, last + 1) || are_slow(last, std::min(last + kNear, rows.size()))))
      ++last;
    if (rows.size() - (last - first) < least_) return {};
    std::vector<uint32_t> outside(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(first));
    outside.insert(outside.end(), rows.begin() + static_cast<std::ptrdiff_t>(last), rows.end());
    return outside;
  }
  int64_t End() const { return learned_.End(request_); }
  std::vector<uint32_t> Nearest(const std::vector<uint32_t>& rows) const {
    const int64_t end_ns = End();
    auto after =
        std::partition_point(rows.begin(), rows.end(), [&](uint32_t row) { return learned_.End(row) < end_ns; });
    auto before = after;
    std::vector<uint32_t> nearest;
    while (nearest.size() < kMostOfALevel && (before != rows.begin() || after != rows.end())) {
      const bool is_before = after == rows.end() || (before != rows.begin() && end_ns - learned_.End(*(before - 1)) <=
                                                                                   learned_.End(*after) - end_ns);
      const uint32_t row = is_before ? *--before : *after++;
      if (row != request_ && known_.count(row) == 0) nearest.push_back(row);
    }
    return nearest;
  }
  static std::vector<uint32_t> Spread(const std::vector<uint32_t>& rows) {
    std::vector<uint32_t> spread;
    for (size_t i = 0; i < kMostOfALevel; ++i) spread.push_back(rows[i * rows.size() / kMostOfALevel]);
    return spread;
  }
  void LeaveOut(uint32_t row) {
    const model::Interval time = {trace_.requests[row].begin_ns, learned_.End(row)};
    lost_ = left_out_++ == 0
                ? time
                : model::Interval{std::min(lost_.begin_ns, time.begin_ns), std::max(lost_.end_ns, time.end_ns)};
  }
  Status AddOne(uint32_t row) {
    const auto [found, is_new] = learned_.walked.try_emplace(row);
    Learned::Data::Walked& walked = found->second;
    if (is_new && learned_.known != nullptr && learned_.known->count(trace_.requests[row].id) != 0) {
      walked = {true, false, learned_.known->at(trace_.requests[row].id)};
    } else if (is_new) {
      RequestBlame blame;
      if (Status status = FindBlame(index_, row, &blame); !status.ok()) {
        learned_.walked.erase(found);
        return status;
      }
      walked = {blame.is_reliable, blame.losses != 0, {0, blame.blame, WorkOf(index_, blame)}};
      if (learned_.known != nullptr && walked.is_reliable && !walked.is_lost)
        learned_.known->try_emplace(trace_.requests[row].id, walked.row);
    }
    if (walked.is_lost) LeaveOut(row);
    if (!walked.is_reliable) return Status();
    BaselineRow normal = walked.row;
    normal.at_ns = End();  // all count as of the request's moment: a window is short
    ++added_;
    const RequestRow& request = trace_.requests[row];
    return baseline_->Add(trace_.strings[request.route], request.size_bucket, normal);
  }

  const BlameIndex& index_;
  const Trace& trace_;
  const uint32_t request_, least_;
  Learned::Data& learned_;
  Baseline* const baseline_;
  std::unordered_set<uint32_t> known_;  // rows
  uint32_t added_ = 0, left_out_ = 0;   // left out because of losses
  model::Interval lost_ = {0, 0};       // from the first to the last left out
};

}  // namespace

Status LearnBaseline(const BlameIndex& index, uint32_t request, const VerdictOptions& options, Baseline* baseline,
                     Learned* learned) noexcept {
  if (index.data() == nullptr) return Status(StatusCode::kInvalidArgument, "index: not built");
  const Trace& trace = index.data()->index.trace;
  if (request >= trace.requests.size()) return Status(StatusCode::kInvalidArgument, "request: no such row");
  try {
    Learned of_this;
    if (learned == nullptr) learned = &of_this;
    if (learned->data == nullptr) learned->data = std::make_unique<Learned::Data>(index.data()->index);
    learned->data->known = learned->known;
    const RequestRow& like = trace.requests[request];
    Learner learner(index, request, options.least, learned->data.get(), baseline);
    Status status = learner.Add(learned->data->of_cell[{like.route, like.size_bucket}]);
    if (status.ok() && learner.added() < options.least) status = learner.Add(learned->data->of_route[like.route]);
    if (status.ok() && learner.added() < options.least) status = learner.Add(learned->data->of_all);
    learned->why_few = learner.WhyFew(options.least);
    return status;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory to learn the baseline");
  } catch (...) {
    return Status(StatusCode::kInternal, "the baseline could not be learned");
  }
}

}  // namespace analyze
PITOT_NAMESPACE_END
