// SPDX-License-Identifier: Apache-2.0
//
// A15: does more at once bring more? For batches: how their time depends on their number of requests (the Universal
// Scalability Law), if a window has three sizes or more. For several GPUs: the limit set by their communication. The
// limit with more GPUs does not follow from one number of them.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "analyze/blame/batch_work.h"
#include "analyze/catalogue/catalogue.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/scaling_law.h"
#include "analyze/facts/subjects.h"
#include "pitot/model/indexes.h"

namespace pitot::catalogue {
namespace a15 {
namespace {

using facts::AddNumber;
using facts::Conclude;
using facts::DevicesAtWork;
using facts::EachOf;
using facts::FitSurely;
using facts::GpuName;
using facts::InfoOf;
using facts::Judged;
using facts::Longest;
using facts::Percent;
using facts::SeverityOf;
using facts::Share;
using facts::SureScalingLaw;
using model::GpuClass;
using model::Intervals;
using model::Trace;

constexpr Threshold kThresholds[] = {
    {"least_batches", 30, "1", "pitot"},
    {"serial", 0.5, "1", "pitot"},
    {"least_of_size", 5, "1", "pitot"},     // batches; with fewer a median says little
    {"gain", 0.05, "1", "model_analyzer"},  // throughput of the best size over that of the largest; less is a plateau
    {"communication_share", 0.1, "1", "torch-tb-profiler"},
};

constexpr size_t kMostBatches = 2000;  // of an executor; if there are more, so many evenly

class Scaling final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a15", "scaling with batch size and GPUs", kThresholds); }

  Status Run(Analysis& analysis) override {
    const Trace& trace = analysis.trace();
    std::map<model::StringId, std::vector<uint32_t>> executors;
    const std::vector<blame::BatchTime> times = blame::BatchTimes(analysis);
    for (const uint32_t row : EachOf(analysis, trace.batches.size())) {
      if (times[row].work_ns > 0 && trace.batches[row].member_count > 0)
        executors[trace.batches[row].executor].push_back(row);
    }
    for (const auto& [name, batches] : executors) {
      OfExecutor(analysis, "executor " + std::string(trace.strings[name]), batches, times);
      if (analysis.IsOver()) return Status();
    }
    for (const uint32_t device : DevicesAtWork(trace)) Communication(analysis, device);
    return Status();
  }

 private:
  static void OfExecutor(Analysis& analysis, const std::string& subject, const std::vector<uint32_t>& batches,
                         const std::vector<blame::BatchTime>& batch_times) {
    const Trace& trace = analysis.trace();
    if (static_cast<double>(batches.size()) < analysis.threshold("least_batches").value) return;
    std::map<uint32_t, std::vector<double>> times;
    const size_t step = batches.size() / kMostBatches + 1;
    Longest longest(EvidenceTable::kWindow, "the longest batches");
    for (size_t i = 0; i < batches.size(); i += step) {
      const blame::BatchTime& time = batch_times[batches[i]];
      times[trace.batches[batches[i]].member_count].push_back(static_cast<double>(time.work_ns));
      longest.Show(0, time.when);
    }
    const double least = std::max(1.0, analysis.threshold("least_of_size").value);
    for (auto of_size = times.begin(); of_size != times.end();)
      of_size = static_cast<double>(of_size->second.size()) < least ? times.erase(of_size) : std::next(of_size);
    if (times.empty()) return;
    const uint32_t largest = times.rbegin()->first;
    if (largest < 2 * times.begin()->first) return;  // too alike to tell
    const SureScalingLaw sure = FitSurely(times);
    if (sure.law.one_ns <= 0) return;
    AddNumber(analysis, "serial", subject, sure.law.serial);
    AddNumber(analysis, "crosstalk", subject, sure.law.crosstalk);
    const double to_one = 1 + sure.law.Gain(largest, 1), gain = sure.law.Gain(sure.best, largest);
    AddNumber(analysis, "throughput_of_largest_to_one", subject, to_one);
    AddNumber(analysis, "best_size", subject, sure.best);
    AddNumber(analysis, "gain_of_best_size", subject, gain);
    if (sure.least_gain >= analysis.threshold("gain").value) {
      return Judge(
          analysis, subject, "a15.crosstalk", "throughput of the best size / of the largest - 1", gain, "gain",
          base::Format("throughput falls beyond %u requests in a batch; the recorded batches of %u have %.0f %% less",
                       sure.best, largest, 100 * gain / (1 + gain)),
          "Limit batches to that size.", longest);
    }
    if (sure.least_serial < analysis.threshold("serial").value) return;
    Judge(analysis, subject, "a15.serial", "share of a batch's time that each request adds", sure.law.serial, "serial",
          base::Format(
              "a batch of %u has %.1f times the throughput of one request: each request adds %.0f %% of the time "
              "of one alone",
              largest, to_one, 100 * sure.law.serial),
          "Look for work done for one request after another: preprocessing, copies, loops (a06, a10, a17).", longest);
  }

  static void Judge(Analysis& analysis, const std::string& subject, const char* code, const char* metric, double value,
                    const char* threshold, const std::string& summary, const char* advice, const Longest& longest) {
    Conclude(analysis, Judged(code, subject.c_str(), metric, value, analysis.threshold(threshold)),
             {.severity = Severity::kMedium,
              .confidence = 0.8,  // larger batches may have had larger requests
              .summary = summary,
              .recommendation = advice},
             longest);
  }

  static void Communication(Analysis& analysis, uint32_t device) {
    const model::IntervalSets& sets = analysis.indexes().sets;
    const Intervals& all = sets.Gpu(device, GpuClass::kCommunication);
    if (all.empty()) return;
    const int64_t exposed_ns = TotalNs(Difference(all, sets.Gpu(device, GpuClass::kCompute)));
    const int64_t busy_ns = TotalNs(DeviceBusy(analysis.trace(), device));
    const std::string subject = GpuName(analysis.trace(), device);
    const double share = Share(exposed_ns, busy_ns);
    AddNumber(analysis, "efficiency_at_most", subject, 1 - share);
    const Threshold most = analysis.threshold("communication_share");
    if (share < most.value) return;
    const std::string summary = "communication not hidden by computing takes " + Percent(share) +
                                " of its time: it does at most " + Percent(1 - share) +
                                " of the work of a GPU alone; one GPU does not show the effect of more GPUs, nor the "
                                "time spent waiting for others";
    Longest longest(EvidenceTable::kWindow, "communication");
    for (const model::Interval& time : all) longest.Show(0, time);
    Conclude(
        analysis, Judged("a15.communication", subject.c_str(), "exposed communication / time at work", share, most),
        {.severity = SeverityOf(share, most.value),
         .confidence = 0.4,
         .is_undetermined = true,
         .cost_ns = exposed_ns,
         .summary = summary,
         .recommendation =
             "Compare traces with at least three different numbers of GPUs, and look for the late one among them."},
        longest);
  }
};

}  // namespace
}  // namespace a15

std::unique_ptr<Analyzer> MakeScaling() { return std::make_unique<a15::Scaling>(); }

}  // namespace pitot::catalogue
