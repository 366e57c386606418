// SPDX-License-Identifier: Apache-2.0
#include "analyze/blame/mixed_work.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "base/columns.h"
#include "base/quantile.h"
#include "pitot/request.h"

namespace pitot::blame {

using model::kNone;
using model::Trace;

// The name of a friend has the namespace's linkage.
class MixedWorkFinder {
 public:
  using Part = MixedWork::Part;
  using Doubt = MixedWork::Doubt;
  MixedWorkFinder(const Trace& trace, const Contexts& contexts) : trace_(trace), contexts_(contexts) {}
  void Find(MixedWork* found);

 private:
  struct Step {
    uint32_t batch = kNone;
    bool is_given = false;  // by Join
    int64_t length_ns = 0;
    std::vector<Part> parts;
    uint32_t large = 0;  // members that `parts` sums up
    double work = 0;     // of these
    double rest = 0;     // of the other members, if it is given
    bool is_work_known = true;
    double beyond_ns = 0;  // the usual time of one without these members
    bool is_usual_known = false;
    bool is_beside_large = false;  // overlaps a step with such members on its thread
  };
  // Steps of an executor with such members.
  struct Like {
    std::vector<double> works, lengths_ns, beyond_ns, ns_of_work;
  };
  // Their usual.
  struct Usual {
    double work = 0, ns_of_work = 0, most_beyond_ns = 0;
    bool is_known = false, are_works_known = false;
    bool is_longer = false;  // than without
  };
  struct Taken {
    double ns = 0;
    Doubt doubt = Doubt::kNone;
    bool is_time_known = true;
  };
  struct Executor {
    std::vector<double> all;          // the work of batches where all of it is given; ascending
    std::vector<double> works;        // of members, in batches where all are given
    uint32_t batches = 0, given = 0;  // closed ones; those where the work of all members is given
    bool has_tokens = false;
    model::StringId unit = 0;
    bool is_given() const { return given >= kLeastSteps && 2 * given >= batches; }
    std::map<uint32_t, double> most;  // by request: what it brings to one of these batches
    double typical = 0;               // of works
    double usual_most = 0;            // 0: not known
    int64_t long_ns = 0;              // the upper quartile of steps without such members; 0: not known
    double ns_of_work = 0;            // of these steps, their whole time; 0: not known
    Like like;
    Usual usual;
  };
  // Fewer like steps have no usual time.
  static constexpr size_t kLeastSteps = 8;
  using Key = std::pair<model::StringId, int>;
  static constexpr int kAny = INT32_MAX;

  void FindExecutors();
  void AddStep(uint32_t batch);
  void AddGiven(const model::BatchRow& row, const Executor& executor, Step* step) const;
  void AddInferred(const model::BatchRow& row, Step* step) const;
  void FindBesideLarge();
  void FindUsualWithout();
  int64_t UsualWithoutNs(const Step& step) const;
  void FindBeyond();
  static Usual UsualOf(Like like, int64_t long_without_ns);
  static Taken TakenByGiven(const Step& step, const Executor& executor, bool is_long);
  static Taken TakenByInferred(const Step& step, const Usual& usual, bool is_long);
  static bool AreLikeKnown(const Step& step, const Executor& executor);
  Taken TakenBy(const Step& step, const Executor& executor) const;
  std::vector<int64_t> FindAlone() const;
  bool IsPrompt(const model::MemberRow& member) const;
  int KeyOf(const Step& step) const;
  Executor& ExecutorOf(uint32_t batch) { return executors_[trace_.batches[batch].executor]; }

  const Trace& trace_;
  const Contexts& contexts_;
  std::map<model::StringId, Executor> executors_;
  std::vector<uint32_t> prompts_of_;  // by request: iterations that read its prompt
  std::vector<Step> steps_;
  std::map<Key, int64_t> usual_without_;
};

namespace {

// A member this many times as large as the median one may lengthen its batch.
constexpr double kLarge = 4;
// The largest of a batch. The time of further ones stays with its code.
constexpr size_t kMostParts = 64;
// A step this many times as long as one without such members needs a reason.
constexpr double kLong = 2;
// Work may take up to twice its usual time. Beyond four times the usual work, the time of more is not known as well.
constexpr double kMostOfUsual = 2, kMuchMore = 4, kMostOfMuchMore = 4;
// Such work usually lengthens steps if the lower quartile of those with it is this far above the upper quartile of
// those without. Otherwise only much more work is a reason, for a step of kLong.
constexpr double kUsuallyLonger = 1.2;

// Batches have about as much work up to this factor.
constexpr double kAlike = 2;
// More is counted as this much, so that sums are finite.
constexpr double kMostWork = 1e15;

// The first token's time; INT64_MAX: none yet.
int64_t FirstTokenNs(const model::RequestRow& row) {
  return row.first_token_ns == 0 ? INT64_MAX : row.begin_ns + row.first_token_ns;
}

std::span<const model::MemberRow> MembersOf(const Trace& trace, const model::BatchRow& row) {
  return std::span(trace.members).subspan(row.member_count != 0 ? row.first_member : 0, row.member_count);
}

// One part for each request, the largest first.
void Merge(std::vector<MixedWork::Part>* parts) {
  using Part = MixedWork::Part;
  std::sort(parts->begin(), parts->end(), [](const Part& a, const Part& b) { return a.request < b.request; });
  size_t merged = 0;
  for (const Part& part : *parts) {
    if (merged != 0 && (*parts)[merged - 1].request == part.request) {
      (*parts)[merged - 1].work += part.work;
    } else {
      (*parts)[merged++] = part;
    }
  }
  parts->resize(merged);
  std::stable_sort(parts->begin(), parts->end(), [](const Part& a, const Part& b) { return a.work > b.work; });
}

}  // namespace

double GivenWork(const model::MemberRow& member) { return std::clamp(member.work, 0.0, kMostWork); }

bool MixedWorkFinder::IsPrompt(const model::MemberRow& member) const {
  return member.request != kNone &&
         FirstTokenNs(trace_.requests[member.request]) > trace_.batches[member.batch].begin_ns;
}

// Steps about as large, by the power of two: by their work if it is given, otherwise by their members. Such members are
// left out.
int MixedWorkFinder::KeyOf(const Step& step) const {
  if (step.is_given) return step.rest > 0 ? std::ilogb(step.rest) : kAny;
  const uint32_t members = trace_.batches[step.batch].member_count;
  return static_cast<int>(std::bit_width(members - std::min(members, step.large)));
}

void MixedWorkFinder::FindExecutors() {
  prompts_of_.resize(trace_.requests.size());
  for (const model::MemberRow& member : trace_.members) {
    if (member.request == kNone) continue;
    if (IsPrompt(member)) ++prompts_of_[member.request];
    if (trace_.requests[member.request].first_token_ns != 0) ExecutorOf(member.batch).has_tokens = true;
  }
  for (const model::BatchRow& row : trace_.batches) {
    const auto members = MembersOf(trace_, row);
    if (row.work_unit != 0) executors_[row.executor].unit = row.work_unit;
    if (row.duration_ns <= 0 || members.empty()) continue;
    Executor& executor = executors_[row.executor];
    ++executor.batches;
    if (!std::all_of(members.begin(), members.end(), [](const auto& member) { return member.work > 0; })) continue;
    ++executor.given;
    double all = 0;
    std::vector<Part> parts;
    for (const model::MemberRow& member : members) {
      executor.works.push_back(GivenWork(member));
      all += executor.works.back();
      if (member.request != kNone) parts.push_back({member.request, 0, executor.works.back()});
    }
    executor.all.push_back(all);
    Merge(&parts);
    for (const Part& part : parts) executor.most[part.request] = std::max(executor.most[part.request], part.work);
  }
  for (auto& [name, executor] : executors_) {
    executor.typical = base::Median(std::move(executor.works));
    std::sort(executor.all.begin(), executor.all.end());
    std::vector<double> most;
    for (const auto& [request, work] : executor.most) most.push_back(work);
    if (most.size() >= kLeastSteps) executor.usual_most = base::Median(std::move(most));
  }
}

void MixedWorkFinder::AddGiven(const model::BatchRow& row, const Executor& executor, Step* step) const {
  int64_t joined_ns = row.begin_ns;  // until then it gathers members
  for (const model::MemberRow& member : MembersOf(trace_, row)) {
    joined_ns = std::max(joined_ns, member.join_ns);
    step->is_work_known &= member.work > 0;
    const double work = GivenWork(member);
    if (member.request == kNone || work < kLarge * executor.typical) {
      step->rest += work;
      continue;
    }
    ++step->large;
    step->work += work;
    step->parts.push_back({member.request, 0, work, executor.typical, executor.usual_most});
  }
  Merge(&step->parts);
  step->length_ns = row.begin_ns + row.duration_ns - joined_ns;
}

// Names the largest prompt alone.
void MixedWorkFinder::AddInferred(const model::BatchRow& row, Step* step) const {
  step->length_ns = row.duration_ns;
  uint32_t largest = kNone;
  double largest_work = 0;
  for (const model::MemberRow& member : MembersOf(trace_, row)) {
    if (!IsPrompt(member)) continue;
    const model::RequestRow& request = trace_.requests[member.request];
    const double size = !request.sizes.empty() && std::isfinite(request.sizes[0].value) ? request.sizes[0].value : 0;
    const double work = size / prompts_of_[member.request];
    ++step->large;
    step->is_work_known &= size > 0;
    step->work += work;
    if (largest != kNone && work <= largest_work) continue;
    largest = member.request;
    largest_work = work;
  }
  if (largest != kNone) step->parts.push_back({largest});
}

// Leaves out executors without given work that never put out tokens.
void MixedWorkFinder::AddStep(uint32_t batch) {
  const model::BatchRow& row = trace_.batches[batch];
  if (row.duration_ns <= 0) return;
  const Executor& executor = ExecutorOf(batch);
  Step step;
  step.batch = batch;
  step.is_given = executor.is_given();
  if (step.is_given) {
    AddGiven(row, executor, &step);
  } else if (executor.has_tokens && !trace_.tokens.empty()) {
    AddInferred(row, &step);
  }
  if (step.length_ns > 0) steps_.push_back(std::move(step));
}

// An engine that schedules ahead works for several steps at once: a large one makes those long that overlap it. Steps
// are in the order of their begins.
void MixedWorkFinder::FindBesideLarge() {
  std::map<uint32_t, int64_t> ended_ns,
      next_ns;  // by thread: the latest end of large steps before, the next one's begin
  for (Step& step : steps_) {
    const model::BatchRow& row = trace_.batches[step.batch];
    const auto [large, is_first] = ended_ns.try_emplace(row.thread, INT64_MIN);
    step.is_beside_large = row.begin_ns < large->second;
    if (step.large != 0) large->second = std::max(large->second, trace_.BatchEnd(row));
  }
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    const model::BatchRow& row = trace_.batches[step->batch];
    const auto [large, is_last] = next_ns.try_emplace(row.thread, INT64_MAX);
    step->is_beside_large |= large->second < trace_.BatchEnd(row);
    if (step->large != 0) large->second = row.begin_ns;
  }
}

// The usual time of a step without such members, by executor and size, and of any size.
void MixedWorkFinder::FindUsualWithout() {
  std::map<Key, std::vector<int64_t>> lengths;
  std::map<model::StringId, std::vector<double>> rates;
  for (const Step& step : steps_) {
    if (step.large != 0 || step.is_beside_large || (step.is_given && !step.is_work_known)) continue;
    const model::StringId executor = trace_.batches[step.batch].executor;
    if (const int key = KeyOf(step); key != kAny) lengths[{executor, key}].push_back(step.length_ns);
    lengths[{executor, kAny}].push_back(step.length_ns);
    if (step.is_given && step.rest > 0) rates[executor].push_back(static_cast<double>(step.length_ns) / step.rest);
  }
  for (auto& [key, ns] : lengths) {
    if (ns.size() < kLeastSteps) continue;
    usual_without_[key] = base::Median(ns);
    if (key.second == kAny) executors_[key.first].long_ns = base::Quantile(std::move(ns), 0.75);
  }
  for (auto& [name, ns] : rates) {
    if (ns.size() >= kLeastSteps) executors_[name].ns_of_work = base::Median(std::move(ns));
  }
}

// 0: not known.
int64_t MixedWorkFinder::UsualWithoutNs(const Step& step) const {
  const model::StringId executor = trace_.batches[step.batch].executor;
  for (const int key : {KeyOf(step), kAny}) {
    if (const auto found = usual_without_.find({executor, key}); found != usual_without_.end()) return found->second;
  }
  return 0;
}

void MixedWorkFinder::FindBeyond() {
  for (Step& step : steps_) {
    const int64_t usual_ns = UsualWithoutNs(step);
    const bool is_partly_given = step.is_given && !step.is_work_known;
    step.is_usual_known = usual_ns != 0;
    if (usual_ns == 0 || (step.large == 0 && !is_partly_given)) continue;
    step.beyond_ns = static_cast<double>(std::max<int64_t>(step.length_ns - usual_ns, 0));
    if (is_partly_given) continue;
    Like& like = ExecutorOf(step.batch).like;
    like.beyond_ns.push_back(step.beyond_ns);
    like.lengths_ns.push_back(static_cast<double>(step.length_ns));
    if (!step.is_work_known) continue;
    like.works.push_back(step.work);
    like.ns_of_work.push_back(step.beyond_ns / step.work);
  }
  for (auto& [name, executor] : executors_) executor.usual = UsualOf(std::move(executor.like), executor.long_ns);
}

MixedWorkFinder::Usual MixedWorkFinder::UsualOf(Like like, int64_t long_without_ns) {
  Usual usual;
  usual.is_known = like.beyond_ns.size() >= kLeastSteps;
  usual.are_works_known = like.works.size() >= kLeastSteps;
  const double short_ns = base::Quantile(std::move(like.lengths_ns), 0.25);
  usual.is_longer = usual.is_known && short_ns >= kUsuallyLonger * static_cast<double>(long_without_ns);
  usual.most_beyond_ns = base::Quantile(std::move(like.beyond_ns), 0.9);
  if (!usual.are_works_known) return usual;
  usual.work = base::Median(std::move(like.works));
  usual.ns_of_work = base::Median(std::move(like.ns_of_work));
  return usual;
}

// The time that a step took for its large members, by the usual time of their work. If that is not known, a unit takes
// at most the whole time of a step without them, divided by that step's work.
MixedWorkFinder::Taken MixedWorkFinder::TakenByGiven(const Step& step, const Executor& executor, bool is_long) {
  const Usual& usual = executor.usual;
  const bool is_much_more = step.work >= kMuchMore * usual.work;
  if (usual.are_works_known && usual.is_longer) {
    const double usual_ns = usual.ns_of_work * step.work;
    const double taken_ns = std::min(step.beyond_ns, (is_much_more ? kMostOfMuchMore : kMostOfUsual) * usual_ns);
    // More than the usual may be another reason's.
    return {taken_ns, Doubt::kNone, taken_ns <= kUsuallyLonger * usual_ns};
  }
  if (!is_long || (usual.are_works_known && !is_much_more)) return {};
  return {std::min(step.beyond_ns, executor.ns_of_work * step.work), Doubt::kNone, false};
}

MixedWorkFinder::Taken MixedWorkFinder::TakenByInferred(const Step& step, const Usual& usual, bool is_long) {
  if (step.is_work_known && usual.are_works_known) {
    if (step.work >= kMuchMore * usual.work) return {usual.is_longer || is_long ? step.beyond_ns : 0};
    if (!usual.is_longer) return {};
    return {std::min(step.beyond_ns, kMostOfUsual * usual.ns_of_work * step.work)};
  }
  if (usual.is_longer && step.beyond_ns <= usual.most_beyond_ns) return {step.beyond_ns};
  return {0, !is_long ? Doubt::kNone : step.is_work_known ? Doubt::kFewPrompts : Doubt::kNoSize};
}

// Whether enough batches have about as much work in all. One much longer than these is not explained by work.
bool MixedWorkFinder::AreLikeKnown(const Step& step, const Executor& executor) {
  const double all = step.work + step.rest;
  const auto first = std::lower_bound(executor.all.begin(), executor.all.end(), all / kAlike);
  const auto last = std::upper_bound(first, executor.all.end(), all * kAlike);
  return last - first >= static_cast<ptrdiff_t>(kLeastSteps);
}

MixedWorkFinder::Taken MixedWorkFinder::TakenBy(const Step& step, const Executor& executor) const {
  const auto length_ns = static_cast<double>(step.length_ns);
  const bool is_long = length_ns >= kLong * (length_ns - step.beyond_ns);
  if (!step.is_given) return step.beyond_ns > 0 ? TakenByInferred(step, executor.usual, is_long) : Taken{};
  if (!step.is_usual_known)
    return {0, step.work > step.rest && !AreLikeKnown(step, executor) ? Doubt::kFewLike : Doubt::kNone};
  if (!step.is_work_known) return {0, is_long ? Doubt::kNoWork : Doubt::kNone};
  return step.large != 0 ? TakenByGiven(step, executor, is_long) : Taken{};
}

// The longest scope of each batch in which the thread worked for its largest member, in ns, if it worked for others
// besides. A long one says which time was whose; a short one, like the member's sampling, does not.
std::vector<int64_t> MixedWorkFinder::FindAlone() const {
  std::vector<int64_t> own_ns(trace_.batches.size());
  std::vector<bool> has_others(trace_.batches.size());
  std::vector<uint32_t> own(trace_.batches.size(), kNone);
  for (const Step& step : steps_) {
    if (step.is_given && step.large != 0) own[step.batch] = step.parts[0].request;
  }
  for (uint32_t event = 0; event < trace_.events.size(); ++event) {
    const uint32_t batch = trace_.events.batch[event];
    if (batch == kNone || own[batch] == kNone || !model::IsScope(trace_.sites[trace_.events.site[event]].kind))
      continue;
    if (contexts_.OfEvent(event) != own[batch])
      has_others[batch] = true;
    else
      own_ns[batch] = std::max(own_ns[batch], trace_.EventEnd(event) - trace_.events.begin_ns[event]);
  }
  for (size_t batch = 0; batch < own_ns.size(); ++batch) own_ns[batch] = has_others[batch] ? own_ns[batch] : 0;
  return own_ns;
}

void MixedWorkFinder::Find(MixedWork* found) {
  found->of_.resize(trace_.batches.size());
  FindExecutors();
  for (const auto& [name, executor] : executors_) {
    if (executor.unit != 0) {
      found->units_[name] = trace_.strings[executor.unit];
    } else if (executor.has_tokens) {
      found->units_[name] = "tokens";
    }
  }
  for (uint32_t batch = 0; batch < trace_.batches.size(); ++batch) AddStep(batch);
  FindBesideLarge();
  FindUsualWithout();
  FindBeyond();
  const std::vector<int64_t> alone_ns = FindAlone();
  for (Step& step : steps_) {
    const Taken taken = TakenBy(step, ExecutorOf(step.batch));
    MixedWork::Range& range = found->of_[step.batch];
    range.doubt = taken.doubt;
    range.first = static_cast<uint32_t>(found->parts_.size());
    const double share = taken.ns / static_cast<double>(step.length_ns);
    const bool is_recorded = 2 * static_cast<double>(alone_ns[step.batch]) >= taken.ns;
    if (share <= 0 || is_recorded) continue;
    step.parts.resize(std::min(step.parts.size(), kMostParts));
    range.count = static_cast<uint32_t>(step.parts.size());
    for (Part& part : step.parts) {
      part.share = step.is_given ? share * part.work / step.work : share;
      part.is_time_known = taken.is_time_known;
      found->parts_.push_back(part);
    }
  }
}

MixedWork::MixedWork(const Trace& trace, const Contexts& contexts) { MixedWorkFinder(trace, contexts).Find(this); }

const std::string& MixedWork::UnitOf(model::StringId executor) const {
  const auto found = units_.find(executor);
  return found != units_.end() ? found->second : no_unit_;
}

std::string MixedWork::Text(const Trace& trace, uint32_t batch, const Part& part) const {
  const model::BatchRow& row = trace.batches[batch];
  const bool is_step = row.close == static_cast<uint8_t>(BatchClose::kStep);
  return base::Amount(part.work) + " " + UnitOf(row.executor) + (is_step ? " in this step" : " in this batch") +
         ", typical " + base::Amount(part.typical);
}

}  // namespace pitot::blame
