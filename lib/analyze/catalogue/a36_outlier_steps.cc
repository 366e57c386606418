// SPDX-License-Identifier: Apache-2.0
//
// A36: are there steps far out of line, and do they come regularly? Steps are those of a profiler, or batches
// of an executor with as many members and as large requests: larger ones take longer, and are not outliers. Nor are
// batches that waited for members or, if the host's counters tell, got no CPU (a27). Outliers every so many steps are
// somebody's housekeeping.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyze/blame/batch_work.h"
#include "analyze/blame/mixed_work.h"
#include "analyze/catalogue/catalogue.h"
#include "analyze/catalogue/serving.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/subjects.h"
#include "base/quantile.h"
#include "pitot/model/classes.h"

namespace pitot::catalogue {
namespace a36 {
namespace {

using facts::AddNumber;
using facts::Conclude;
using facts::EachOf;
using facts::InfoOf;
using facts::Judged;
using facts::Longest;
using model::Interval;
using model::Trace;

constexpr Threshold kThresholds[] = {
    {"z", 3.5, "1", "XProf"},  // modified: 0.6745 (x - median) / MAD
    {"warm_up", 10, "1", "SageMaker"},
    {"least_steps", 20, "1", "pitot"},
    {"excess_share", 0.02, "1", "pitot"},  // of the time of all steps
    {"fault_share", 0.1, "1", "pitot"},    // likewise
};

constexpr size_t kLeastRegular = 4;                 // three equal gaps: two were found by chance (docs/lab/accuracy.md)
constexpr double kSigma = 0.6745, kLeastMad = 0.1;  // XProf's floor, of the median

// A step or batch, and how long it was at work.
struct Step {
  Interval time;
  double work_ns;
  uint32_t batch;  // kNone: a step
};

// The slowest members of any of these batches, slowest first.
std::vector<uint32_t> SlowestMembers(const Trace& trace, const std::vector<uint32_t>& batches) {
  std::vector<uint32_t> requests;
  for (const uint32_t row : batches) {
    const model::BatchRow& batch = trace.batches[row];
    for (uint32_t i = 0; i < batch.member_count; ++i) {
      const uint32_t request = trace.members[batch.first_member + i].request;
      if (trace.requests[request].begin_known && trace.requests[request].end_known) requests.push_back(request);
    }
  }
  std::sort(requests.begin(), requests.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(trace.requests[b].duration_ns, a) < std::pair(trace.requests[a].duration_ns, b);
  });
  requests.erase(std::unique(requests.begin(), requests.end()), requests.end());
  return requests;
}

// The work of a batch by powers of two if it is given of all members, otherwise the sum of its requests' first sizes:
// ", size 65536 and more". "" if they have none.
std::string HowLarge(const Trace& trace, const model::BatchRow& batch) {
  double size = 0, work = 0;
  bool is_work_given = true;
  for (uint32_t i = 0; i < batch.member_count; ++i) {
    const model::MemberRow& member = trace.members[batch.first_member + i];
    const model::RequestRow& request = trace.requests[member.request];
    if (!request.sizes.empty()) size += request.sizes[0].value;
    work += blame::GivenWork(member);
    is_work_given &= member.work > 0;
  }
  if (is_work_given && work > 0) return base::Format(", work %.6g and more", std::ldexp(1, std::ilogb(work)));
  return size >= 1 && std::isfinite(size) ? base::Format(", size %.6g and more", std::ldexp(1, std::ilogb(size))) : "";
}

// How many steps are between outliers, if that is always the same within one; otherwise 0.
size_t PeriodOf(const std::vector<size_t>& outliers) {
  if (outliers.size() < kLeastRegular) return 0;
  std::vector<double> gaps;
  for (size_t i = 1; i < outliers.size(); ++i) gaps.push_back(static_cast<double>(outliers[i] - outliers[i - 1]));
  const double median = base::Median(gaps);
  const bool is_regular =
      median >= 2 && std::all_of(gaps.begin(), gaps.end(), [&](double gap) { return std::fabs(gap - median) <= 1; });
  return is_regular ? static_cast<size_t>(std::llround(median)) : 0;
}

// PyTorch numbers its steps. Others name them, and steps of one name are alike.
std::string StepName(std::string_view event) {
  return model::IsProfilerStep(event) ? "steps" : "steps \"" + std::string(event) + "\"";
}

class OutlierSteps final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override {
    return InfoOf("a36", "outlier steps", kThresholds, kReadsEvents | kReadsRequests);
  }

  Status Run(Analysis& analysis) override {
    const Trace& trace = analysis.trace();
    std::map<std::string, std::vector<Step>> groups;
    const model::Steps are_steps(trace);
    for (const uint32_t event : EachOf(analysis, trace.events.size())) {
      if (trace.events.duration_ns[event] > 0 && are_steps.Is(event))
        groups[StepName(trace.EventName(event))].push_back({{trace.events.begin_ns[event], trace.EventEnd(event)},
                                                            static_cast<double>(trace.events.duration_ns[event]),
                                                            model::kNone});
    }
    const std::vector<blame::BatchTime> times = blame::BatchTimes(analysis);
    for (const uint32_t row : EachOf(analysis, times.size())) {
      const model::BatchRow& batch = trace.batches[row];
      if (times[row].work_ns == 0) continue;
      const std::string group = std::string(trace.strings[batch.executor]) + ", batches of " +
                                std::to_string(batch.member_count) + HowLarge(trace, batch);
      groups[group].push_back({times[row].when, static_cast<double>(times[row].work_ns), row});
    }
    const auto warm_up = static_cast<size_t>(std::max(0.0, analysis.threshold("warm_up").value));
    for (auto& [name, steps] : groups) {
      std::stable_sort(steps.begin(), steps.end(),
                       [](const Step& a, const Step& b) { return a.time.begin_ns < b.time.begin_ns; });
      steps.erase(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(std::min(warm_up, steps.size())));
      if (static_cast<double>(steps.size()) >= analysis.threshold("least_steps").value && !steps.empty())
        Judge(analysis, name, steps);
    }
    return Status();
  }

 private:
  static void Judge(Analysis& analysis, const std::string& name, const std::vector<Step>& steps) {
    std::vector<double> lengths, off;
    double total_ns = 0;
    for (const Step& step : steps) {
      lengths.push_back(step.work_ns);
      total_ns += step.work_ns;
    }
    const double median = base::Median(lengths);
    for (const double length : lengths) off.push_back(std::fabs(length - median));
    const double mad = std::max(base::Median(off), kLeastMad * median);
    if (mad <= 0) return;
    const Threshold least = analysis.threshold("z");
    std::vector<size_t> outliers;
    std::vector<uint32_t> batches;
    double farthest = 0, excess_ns = 0;
    Longest longest(EvidenceTable::kWindow, "an outlier");
    for (size_t i = 0; i < steps.size(); ++i) {
      const double z = kSigma * (lengths[i] - median) / mad;
      if (z < least.value) continue;
      outliers.push_back(i);
      farthest = std::max(farthest, z);
      excess_ns += lengths[i] - median;
      longest.Show(0, steps[i].time);
      if (steps[i].batch != model::kNone) batches.push_back(steps[i].batch);
    }
    AddNumber(analysis, "steps", name, static_cast<double>(steps.size()));
    AddNumber(analysis, "median", name, median, "ns");
    AddNumber(analysis, "outliers", name, static_cast<double>(outliers.size()));
    AddNumber(analysis, "excess_share", name, excess_ns / total_ns);
    if (outliers.empty() || excess_ns < analysis.threshold("excess_share").value * total_ns) return;
    const size_t period = PeriodOf(outliers);
    if (period != 0) AddNumber(analysis, "period", name, static_cast<double>(period));
    // Every server has slow batches: without a period, and if they cost little, they tell of a fault no more often than
    // not.
    const bool are_ordinary =
        period == 0 && !batches.empty() && excess_ns < analysis.threshold("fault_share").value * total_ns;
    const bool are_many = outliers.size() * 50 >= steps.size();
    std::string summary = base::Plural(outliers.size(), "step") + " of " + base::Count(steps.size()) +
                          " took much longer than the median of " + base::Duration(std::llround(median)) + ", " +
                          base::Duration(std::llround(excess_ns)) + " more in all";
    if (period != 0) summary += ", one every " + base::Plural(period, "step");
    const std::vector<uint32_t> slowest = SlowestMembers(analysis.trace(), batches);
    if (!slowest.empty()) summary += "; the slowest requests in them: " + RequestNames(analysis.trace(), slowest);
    Conclude(
        analysis, Judged("a36.outliers", name.c_str(), "largest modified z", farthest, least),
        {.severity = are_ordinary              ? Severity::kInfo
                     : period != 0 || are_many ? Severity::kMedium
                                               : Severity::kLow,
         .confidence = period != 0 ? 0.95 : 0.5,
         .cost_ns = std::llround(excess_ns),
         .summary = summary,
         .recommendation =
             period != 0
                 ? "Something happens every so many steps (logging, saving, garbage collection): do it elsewhere."
             : slowest.empty()
                 ? "Look in the timeline for other work at the time."
                 : "Run `pitot why FILE --request ID` on these, or look in the timeline for other work at the time."},
        longest);
  }
};

}  // namespace
}  // namespace a36

std::unique_ptr<Analyzer> MakeOutlierSteps() { return std::make_unique<a36::OutlierSteps>(); }

}  // namespace pitot::catalogue
