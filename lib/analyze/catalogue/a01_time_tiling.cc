// SPDX-License-Identifier: Apache-2.0
//
// A01: the shares of compute, communication and copies in the window and, where a GPU did nothing, of the threads'
// work.
#include <string>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/facts/subjects.h"
#include "analyze/peers/peers.h"
#include "pitot/model/indexes.h"
#include "pitot/model/sweep.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {
namespace a01 {
namespace {

using model::GpuClass;
using model::HostClass;
using model::Interval;
using model::Intervals;
using model::Trace;

constexpr int64_t kUs = 1000;

// Each device's window, tiled: the measures of a device add up to the window.
void Tile(Analysis& analysis) {
  const Trace& trace = analysis.trace();
  const Interval window = {trace.window_begin_ns, trace.window_end_ns};
  const model::IntervalSets& sets = analysis.indexes().sets;
  std::vector<uint32_t> devices = DevicesAtWork(trace);
  const bool has_gpu = !devices.empty();
  if (!has_gpu) devices.push_back(model::kNone);
  for (const uint32_t device : devices) {
    const std::string subject = has_gpu ? GpuName(trace, device) : kAll;
    std::vector<const Intervals*> classes;
    for (uint32_t k = 0; k < model::kGpuClasses; ++k) classes.push_back(&sets.Gpu(device, static_cast<GpuClass>(k)));
    for (uint32_t k = 0; k < model::kHostClasses; ++k) classes.push_back(&sets.Host(static_cast<HostClass>(k)));
    const std::vector<int64_t> totals = TotalsByPriority(classes, window);
    Add(analysis, "window", subject, window.end_ns - window.begin_ns);
    int64_t busy_ns = 0;
    for (uint32_t k = 0; k < model::kGpuClasses; ++k) {
      busy_ns += totals[k];
      Add(analysis, GpuClassName(static_cast<GpuClass>(k)), subject, totals[k]);
    }
    for (uint32_t k = 0; k < model::kHostClasses; ++k)
      Add(analysis, HostClassName(static_cast<HostClass>(k)), subject, totals[model::kGpuClasses + k]);
    Add(analysis, "untraced", subject, totals.back());
    Add(analysis, "busy", subject, busy_ns);
    if (!has_gpu) continue;
    const Intervals busy = DeviceBusy(trace, device);
    Add(analysis, "before_first", subject, busy.empty() ? 0 : busy.front().begin_ns - window.begin_ns);
    Add(analysis, "after_last", subject, busy.empty() ? 0 : window.end_ns - busy.back().end_ns);
    if (analysis.IsOver()) return;
  }
}

void AsHta(Analysis& analysis) {
  using peers::HtaMerged;
  using peers::HtaRow;
  using peers::HtaType;
  const std::vector<HtaRow> rows = peers::HtaRows(analysis.trace());
  std::vector<HtaRow> compute;
  std::vector<Interval> compute_us, communication_us;
  for (const HtaRow& row : rows) {
    if (row.type == HtaType::kComputation) compute.push_back(row);
    const Interval time = {row.time.begin_us, row.time.EndUs()};
    if (row.type == HtaType::kComputation) compute_us.push_back(time);
    if (row.type == HtaType::kCommunication) communication_us.push_back(time);
  }
  const HtaMerged all = HtaMerge(rows);
  const int64_t kernel_us = all.end_us - all.begin_us, idle_us = kernel_us - all.total_us;
  const int64_t computing_us = HtaMerge(compute).total_us;
  Add(analysis, "kernel_time", kAll, kernel_us * kUs);
  Add(analysis, "idle", kAll, idle_us * kUs);
  Add(analysis, "compute", kAll, computing_us * kUs);
  Add(analysis, "non_compute", kAll, (kernel_us - idle_us - computing_us) * kUs);
  const Intervals communication = Union(std::move(communication_us));
  if (communication.empty()) return;
  AddNumber(analysis, "overlap", kAll,
            Share(TotalNs(Intersection(Union(std::move(compute_us)), communication)), TotalNs(communication)));
}

void AsTraceLens(Analysis& analysis) {
  const Trace& trace = analysis.trace();
  const std::vector<uint32_t> rows = peers::TraceLensRows(trace);
  std::vector<Interval> compute, communication, memcpy;
  for (const uint32_t row : rows) {
    const Interval time = {trace.gpu.begin_ns[row], trace.gpu.begin_ns[row] + trace.gpu.duration_ns[row]};
    const GpuClass of = GpuClassOf(trace, row);
    (of == GpuClass::kMemcpy ? memcpy : of == GpuClass::kCommunication ? communication : compute).push_back(time);
  }
  if (rows.empty()) return;
  const Intervals computes = Union(std::move(compute)), communicates = Union(std::move(communication));
  const Intervals copies = Union(std::move(memcpy));
  const std::vector<int64_t> totals =
      model::TotalsByPriority({&computes, &communicates, &copies}, {0, model::kMaxTimeNs});
  const peers::TraceLensTotals sums = peers::TraceLensMerge(trace, rows);
  AddNumber(analysis, "total", kAll, sums.total_us * 1000, "ns");
  AddNumber(analysis, "busy", kAll, sums.busy_us * 1000, "ns");
  AddNumber(analysis, "idle", kAll, (sums.total_us - sums.busy_us) * 1000, "ns");
  AddNumber(analysis, "idle_share", kAll, sums.total_us == 0 ? 0 : (sums.total_us - sums.busy_us) / sums.total_us);
  Add(analysis, "computation", kAll, totals[0]);
  Add(analysis, "exposed_communication", kAll, totals[1]);
  Add(analysis, "exposed_memcpy", kAll, totals[2]);
}

void AsTbPlugin(Analysis& analysis) {
  const Trace& trace = analysis.trace();
  const Intervals steps = peers::TbSteps(trace, analysis.indexes().launches);
  const std::vector<Intervals> roles = peers::TbRoles(trace, analysis.indexes().sets);
  std::vector<const Intervals*> classes;
  for (const Intervals& role : roles) classes.push_back(&role);
  std::vector<int64_t> totals(peers::kTbRoles + 1);
  int64_t steps_ns = 0;
  for (const Interval& step : steps) {
    const std::vector<int64_t> of_step = TotalsByPriority(classes, step);
    for (size_t k = 0; k < totals.size(); ++k) totals[k] += of_step[k];
    steps_ns += step.end_ns - step.begin_ns;
  }
  const auto count = static_cast<double>(steps.size());
  AddNumber(analysis, "steps", kAll, count);
  AddNumber(analysis, "step", kAll, static_cast<double>(steps_ns) / count, "ns");
  for (uint32_t k = 0; k <= peers::kTbRoles; ++k) {
    AddNumber(analysis, peers::kTbRoleNames[k], kAll, static_cast<double>(totals[k]) / count, "ns");
    AddNumber(analysis, (std::string(peers::kTbRoleNames[k]) + "_share").c_str(), kAll, Share(totals[k], steps_ns));
  }
}

class TimeTiling final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return {"a01", "where the time went", nullptr, 0}; }
  Status Run(Analysis& analysis) override {
    switch (analysis.compat()) {
      case Compat::kHta:
        AsHta(analysis);
        break;
      case Compat::kTraceLens:
        AsTraceLens(analysis);
        break;
      case Compat::kTbPlugin:
        AsTbPlugin(analysis);
        break;
      case Compat::kPitot:
        Tile(analysis);
        break;
    }
    return Status();
  }
};

}  // namespace
}  // namespace a01

std::unique_ptr<Analyzer> MakeTimeTiling() { return std::make_unique<a01::TimeTiling>(); }

}  // namespace analyze
PITOT_NAMESPACE_END
