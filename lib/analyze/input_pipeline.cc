// SPDX-License-Identifier: Apache-2.0
//
// A05: does the GPU wait for its input? Time in which a thread waited for its next batch of data and no GPU worked.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "analyze/catalogue.h"
#include "analyze/evidence.h"
#include "analyze/subjects.h"
#include "pitot/model/indexes.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {
namespace {

using model::HostClass;
using model::Intervals;
using model::Trace;

constexpr Threshold kThresholds[] = {
    {"exposed_share", 0.05, "1", "XProf, torch-tb-profiler"},
    {"exposed_share_high", 0.2, "1", "XProf"},
};

class InputPipeline final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a05", "is input the bottleneck", kThresholds); }

  Status Run(Analysis& analysis) override {
    const Trace& trace = analysis.trace();
    const Intervals& loading = analysis.indexes().sets.Host(HostClass::kLoader);
    if (loading.empty()) return Status();
    std::vector<model::Interval> working;
    for (const uint32_t device : DevicesAtWork(trace)) {
      const Intervals busy = DeviceBusy(trace, device);
      working.insert(working.end(), busy.begin(), busy.end());
    }
    const Intervals busy = Union(std::move(working)), exposed = Difference(loading, busy);
    const int64_t window_ns = trace.window_end_ns - trace.window_begin_ns;
    const int64_t loading_ns = TotalNs(loading), exposed_ns = TotalNs(exposed), busy_ns = TotalNs(busy);
    const double share = Share(exposed_ns, window_ns);
    const Threshold least = analysis.threshold("exposed_share"), high = analysis.threshold("exposed_share_high");
    Add(analysis, "loading", kAll, loading_ns);
    Add(analysis, "exposed_loading", kAll, exposed_ns);
    AddNumber(analysis, "exposed_share", kAll, share);
    AddNumber(analysis, "input_bound", kAll, share >= least.value ? 1 : 0);
    if (share < least.value) return Status();

    Longest longest(EvidenceTable::kWindow, "waited for data while no GPU worked");
    for (const model::Interval& wait : exposed) longest.Show(0, wait);
    const std::string summary = "threads waited for their next batch of data for " + Percent(share) +
                                " of the window while no GPU worked" +
                                (share >= high.value ? "" : ": moderately input-bound");
    // With as many workers as make loading as fast as the rest, none of it is waited for.
    const double others_ns = static_cast<double>(std::max<int64_t>(1, window_ns - exposed_ns));
    const auto workers = static_cast<int64_t>(std::ceil(static_cast<double>(loading_ns) / others_ns)) + 1;
    const std::string advice = "load ahead in other processes (DataLoader's num_workers): one now does in " +
                               base::Duration(loading_ns) + " what the rest consumes in " +
                               base::Duration(static_cast<int64_t>(others_ns)) + ", so " + std::to_string(workers) +
                               " workers or more; pinned memory and prefetching besides";
    Finding finding = Judged("a05.input_bound", kAll, "waiting for data while no GPU worked / window", share,
                             share >= high.value ? high : least);
    finding.severity = share >= high.value ? Severity::kHigh : Severity::kMedium;
    finding.confidence = busy_ns == 0 ? 0.6 : 0.9;  // of a trace without a GPU, whom did it keep waiting?
    finding.cost_ns = exposed_ns;
    finding.summary = summary.c_str();
    finding.recommendation = advice.c_str();
    longest.AddTo(&finding);
    analysis.Add(finding);
    return Status();
  }
};

}  // namespace

std::unique_ptr<Analyzer> MakeInputPipeline() { return std::make_unique<InputPipeline>(); }

}  // namespace analyze
PITOT_NAMESPACE_END
