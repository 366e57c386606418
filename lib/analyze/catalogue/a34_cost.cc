// SPDX-License-Identifier: Apache-2.0
//
// A34: what does a request cost? The work of GPUs and threads for it, and its part of their paid but unused time.
// Prices are the host's.
#include <cmath>
#include <string>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/catalogue/serving.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/recorded.h"
#include "model/flatten.h"
#include "model/lacking.h"
#include "pitot/model/indexes.h"

namespace pitot::catalogue {
namespace a34 {
namespace {

using facts::Accumulate;
using facts::AddNumber;
using facts::Conclude;
using facts::DevicesAtWork;
using facts::InfoOf;
using facts::Judged;
using facts::kAll;
using facts::NowAndThen;
using model::kNone;
using model::Trace;

constexpr Threshold kThresholds[] = {
    {"gpu_hour", 0, "money", "the host"},  // of one GPU; 0: not given
    {"cpu_hour", 0, "money", "the host"},  // of one thread at work
    {"idle_share", 0.5, "1", "pitot"},     // of the cost of GPUs
    {"least_requests", 20, "1", "pitot"},
};

// The time of threads at work for any request or batch.
int64_t CpuTime(Analysis& analysis) {
  const Trace& trace = analysis.trace();
  int64_t cpu_ns = 0;
  NowAndThen asking(analysis);
  for (uint32_t thread = 0; thread < trace.threads.size(); ++thread) {
    const model::Interval window = {trace.window_begin_ns, trace.window_end_ns};
    model::VisitSegments(trace, thread, window, [&](const model::Segment& segment) {
      asking.Count();
      const uint32_t event = segment.event;
      if (trace.events.request[event] == kNone && trace.events.batch[event] == kNone) return;
      if (trace.sites[trace.events.site[event]].kind == SiteKind::kWait) return;
      Accumulate(&cpu_ns, segment.end_ns - segment.begin_ns);
    });
  }
  return cpu_ns;
}

class Cost final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a34", "cost of a request", kThresholds); }

  Status Run(Analysis& analysis) override {
    const Trace& trace = analysis.trace();
    const std::vector<uint32_t> requests = WholeRequests(trace);
    const int64_t window_ns = trace.window_end_ns - trace.window_begin_ns;
    if (requests.empty() || window_ns <= 0) return Status();
    const auto count = static_cast<double>(requests.size());
    const KnownGpuTime gpu_time(trace);
    int64_t gpu_ns = 0, busy_ns = 0;
    const std::vector<uint32_t> with_gpu = gpu_time.Of(requests);
    for (const uint32_t request : with_gpu) Accumulate(&gpu_ns, gpu_time.time.Request(request));
    const std::vector<uint32_t> devices = DevicesAtWork(trace);
    for (const uint32_t device : devices)
      busy_ns += TotalNs(Intersection(DeviceBusy(trace, device), {{trace.window_begin_ns, trace.window_end_ns}}));
    const int64_t cpu_ns = CpuTime(analysis);
    if (!with_gpu.empty())
      AddNumber(analysis, "GPU time of a request", kAll,
                static_cast<double>(gpu_ns) / static_cast<double>(with_gpu.size()), "ns");
    const bool is_cpu_known = cpu_ns != 0 || !model::IsLackingThreads(trace);
    AddNumber(analysis, "CPU time of a request", kAll,
              is_cpu_known ? static_cast<double>(cpu_ns) / count : facts::kNotRecorded, "ns");

    const Threshold gpu_hour = analysis.threshold("gpu_hour"), cpu_hour = analysis.threshold("cpu_hour");
    if (gpu_hour.value > 0 && devices.empty())
      AddNotKnown(analysis, "a34.not_known", "no GPU was recorded: the GPU cost of requests is not known",
                  "Add a GPU collector (MakeCuptiCollector, MakeCudaEventCollector).");
    if (gpu_hour.value <= 0 && cpu_hour.value <= 0) return Status();
    const auto hours = [](int64_t ns) { return static_cast<double>(ns) * 1e-9 / 3600; };
    const double paid = gpu_hour.value * hours(window_ns) * static_cast<double>(devices.size());
    const double used = gpu_hour.value * hours(busy_ns);
    const double cpu = is_cpu_known || cpu_hour.value <= 0 ? cpu_hour.value * hours(cpu_ns) : facts::kNotRecorded;
    AddNumber(analysis, "cost of 1,000 requests", kAll, 1000 * (paid + cpu) / count, "money");
    AddNumber(analysis, "cost of 1,000 requests, GPUs never idle", kAll, 1000 * (used + cpu) / count, "money");
    if (count >= analysis.threshold("least_requests").value && paid > 0) Judge(analysis, paid, used, count, window_ns);
    return Status();
  }

 private:
  static void Judge(Analysis& analysis, double paid, double used, double count, int64_t window_ns) {
    const Threshold least = analysis.threshold("idle_share");
    const double idle = 1 - used / paid;
    if (idle < least.value) return;
    const std::string summary = "1,000 requests cost " + base::Format("%.4g", 1000 * paid / count) + " of GPU time, " +
                                base::Format("%.4g", 1000 * (paid - used) / count) + " of it for idle GPUs";
    const Trace& trace = analysis.trace();
    const Evidence evidence = {EvidenceTable::kWindow, 0, 0, trace.window_begin_ns, trace.window_end_ns, "the window"};
    Conclude(analysis, Judged("a34.idle_cost", kAll, "cost of idle GPUs / cost of GPUs", idle, least),
             {.severity = idle >= 0.75 ? Severity::kMedium : Severity::kLow,
              .confidence = 0.9,
              .cost_ns = std::llround(idle * static_cast<double>(window_ns)),
              .summary = summary,
              .recommendation = "Put more load on fewer GPUs. The knee (a42) shows the load one can take, the plateau "
                                "(a28) the obstacle."},
             evidence);
  }
};

}  // namespace
}  // namespace a34

std::unique_ptr<Analyzer> MakeCost() { return std::make_unique<a34::Cost>(); }

}  // namespace pitot::catalogue
