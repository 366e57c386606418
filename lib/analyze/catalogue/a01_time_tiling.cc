// SPDX-License-Identifier: Apache-2.0
//
// A01: the shares of compute, communication and copies in the window and, where a GPU did nothing, of the threads'
// work.
#include <string>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/facts/recorded.h"
#include "analyze/facts/subjects.h"
#include "model/lacking.h"
#include "pitot/model/indexes.h"
#include "pitot/model/sweep.h"

namespace pitot::catalogue {
namespace a01 {
namespace {

using facts::Add;
using facts::AddNumber;
using facts::DevicesAtWork;
using facts::GpuName;
using facts::HasCalls;
using facts::HasGpuWork;
using facts::kAll;
using facts::kNotRecorded;
using facts::RecordedIn;
using model::GpuClass;
using model::HostClass;
using model::Interval;
using model::Intervals;
using model::Trace;

bool IsOfCalls(HostClass of) {
  return of != HostClass::kOperator && of != HostClass::kLoader && of != HostClass::kScope;
}

// Whether the file's format has no form for such work.
bool IsLackingForm(const Trace& trace, HostClass of) {
  return model::IsLacking(trace, "scopes and calls") ||
         (of == HostClass::kOperator && model::IsLacking(trace, "operators"));
}

void AddKnown(Analysis& analysis, bool is_known, const char* name, const std::string& subject, int64_t ns) {
  AddNumber(analysis, name, subject, is_known ? static_cast<double>(ns) : kNotRecorded, "ns");
}

// Each device's window, tiled: the measures of a device add up to the window.
void Tile(Analysis& analysis) {
  const Trace& trace = analysis.trace();
  const Interval window = {trace.window_begin_ns, trace.window_end_ns};
  const int64_t recorded_ns = TotalNs(RecordedIn(trace, window));
  const model::IntervalSets& sets = analysis.indexes().sets;
  std::vector<uint32_t> devices = DevicesAtWork(trace);
  const bool has_gpu = !devices.empty(), is_gpu_known = HasGpuWork(trace), are_calls_known = HasCalls(trace);
  if (!has_gpu) devices.push_back(model::kNone);
  for (const uint32_t device : devices) {
    const std::string subject = has_gpu ? GpuName(trace, device) : kAll;
    std::vector<const Intervals*> classes;
    for (uint32_t k = 0; k < model::kGpuClasses; ++k) classes.push_back(&sets.Gpu(device, static_cast<GpuClass>(k)));
    for (uint32_t k = 0; k < model::kHostClasses; ++k) classes.push_back(&sets.Host(static_cast<HostClass>(k)));
    const std::vector<int64_t> totals = TotalsByPriority(classes, window);
    Add(analysis, "window", subject, window.end_ns - window.begin_ns);
    // A part without records of GPUs is not idle.
    if (HasGpuWork(trace) && recorded_ns < window.end_ns - window.begin_ns)
      Add(analysis, "recorded", subject, recorded_ns);
    int64_t busy_ns = 0;
    for (uint32_t k = 0; k < model::kGpuClasses; ++k) {
      busy_ns += totals[k];
      AddKnown(analysis, is_gpu_known, GpuClassName(static_cast<GpuClass>(k)), subject, totals[k]);
    }
    for (uint32_t k = 0; k < model::kHostClasses; ++k) {
      const auto of_host = static_cast<HostClass>(k);
      const bool is_recorded = IsOfCalls(of_host) ? are_calls_known : !IsLackingForm(trace, of_host);
      const bool is_known = is_recorded || totals[model::kGpuClasses + k] != 0;
      AddKnown(analysis, is_known, HostClassName(of_host), subject, totals[model::kGpuClasses + k]);
    }
    Add(analysis, "untraced", subject, totals.back());
    AddKnown(analysis, is_gpu_known, "busy", subject, busy_ns);
    if (!has_gpu) continue;
    const Intervals busy = DeviceBusy(trace, device);
    Add(analysis, "before_first", subject, busy.empty() ? 0 : busy.front().begin_ns - window.begin_ns);
    Add(analysis, "after_last", subject, busy.empty() ? 0 : window.end_ns - busy.back().end_ns);
    if (analysis.IsOver()) return;
  }
}

class TimeTiling final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return {"a01", "where the time went", nullptr, 0}; }
  Status Run(Analysis& analysis) override {
    Tile(analysis);
    return Status();
  }
};

}  // namespace
}  // namespace a01

std::unique_ptr<Analyzer> MakeTimeTiling() { return std::make_unique<a01::TimeTiling>(); }

}  // namespace pitot::catalogue
