// SPDX-License-Identifier: Apache-2.0
//
// A03: is the GPU used? How long kernels ran, how many multiprocessors they could fill, and how full those were.
//
// A running kernel says nothing about its share of the device (nvidia-smi's "utilization" is no more than that).
// Estimated efficiency and occupancy, from launch shapes alone, say more, and are upper bounds.
#include "analyze/catalogue/a03_utilisation.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/open_requests.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/recorded.h"
#include "analyze/facts/subjects.h"
#include "model/occupancy.h"
#include "pitot/model/indexes.h"

namespace pitot::catalogue {
namespace a03 {
namespace {

using facts::Accumulate;
using facts::AddNumber;
using facts::Conclude;
using facts::EachOf;
using facts::ForDevicesAtWork;
using facts::GpuName;
using facts::HasRequests;
using facts::InfoOf;
using facts::Judged;
using facts::OpenRequests;
using facts::Percent;
using facts::RecordedIn;
using facts::Share;
using model::GpuKind;
using model::Interval;
using model::Intervals;
using model::kNone;
using model::Trace;

constexpr Threshold kThresholds[] = {
    {"utilisation_low", 0.5, "1", "torch-tb-profiler"},
    {"efficiency_low", 0.5, "1", "pitot"},
};

// The room a kernel could fill, by its launch: blocks for each multiprocessor, and their share of its threads.
struct Fill {
  double blocks_per_multiprocessor = 0;  // 0: unknown
  double occupancy = -1;                 // negative: unknown
};
double Product(const uint32_t (&sizes)[3]) {
  return static_cast<double>(sizes[0]) * static_cast<double>(sizes[1]) * static_cast<double>(sizes[2]);
}
Fill FillOf(const model::DeviceRow& device, const model::KernelShape& shape) {
  Fill fill;
  if (device.multiprocessors == 0) return fill;
  const double threads = Product(shape.block);
  fill.blocks_per_multiprocessor = Product(shape.grid) / device.multiprocessors;
  const double percent = model::TheoreticalOccupancyPercent(device, shape);
  if (percent == 0 || threads == 0) return fill;
  // Like Kineto's "est. achieved occupancy", in floats: as many blocks as there are, at most as many as fit.
  const double threads_per_warp = model::ThreadsPerWarp(device), warps = std::ceil(threads / threads_per_warp);
  const double most_warps = std::floor(device.threads_per_multiprocessor / threads_per_warp);
  const double most_blocks = std::round(percent / 100 * most_warps / warps);
  const auto blocks = static_cast<float>(std::min(fill.blocks_per_multiprocessor, most_blocks));
  fill.occupancy =
      std::min(1.0F, blocks * static_cast<float>(threads) / static_cast<float>(device.threads_per_multiprocessor));
  return fill;
}

struct Kernel {
  Interval time;
  Fill fill;
};

// The share of the multiprocessors that kernels running at once could fill together, as a mean over `whole_ns`.
double EfficiencyOf(const std::vector<Kernel>& kernels, int64_t whole_ns) {
  struct Edge {
    int64_t at_ns;
    double change;
  };
  std::vector<Edge> edges;
  for (const Kernel& kernel : kernels) {
    if (kernel.fill.blocks_per_multiprocessor <= 0) continue;
    edges.push_back({kernel.time.begin_ns, kernel.fill.blocks_per_multiprocessor});
    edges.push_back({kernel.time.end_ns, -kernel.fill.blocks_per_multiprocessor});
  }
  std::stable_sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.at_ns < b.at_ns; });
  double running = 0, filled_ns = 0;
  size_t open = 0;
  for (size_t i = 0; i < edges.size(); ++i) {
    if (open > 0) filled_ns += std::min(1.0, running) * static_cast<double>(edges[i].at_ns - edges[i - 1].at_ns);
    open = edges[i].change > 0 ? open + 1 : open - 1;
    running = open == 0 ? 0 : running + edges[i].change;  // rounding errors do not stay
  }
  return whole_ns == 0 ? 0 : filled_ns / static_cast<double>(whole_ns);
}

// The recorded time in which there was work to do: all of it if the trace has no requests.
struct Asked {
  int64_t time_ns, busy_ns;
  double Utilisation() const { return Share(busy_ns, time_ns); }
};
Asked AskedOf(const Trace& trace, const Intervals& recorded, const Intervals& busy) {
  const Intervals open = HasRequests(trace) ? Intersection(recorded, OpenRequests(trace)) : recorded;
  return {TotalNs(open), TotalNs(Intersection(busy, open))};
}

// `whole`: "the window", or its recorded part.
void Judge(Analysis& analysis, const std::string& subject, const std::string& whole, double utilisation,
           const Asked& asked, bool has_fill, double efficiency) {
  const Threshold low = analysis.threshold("utilisation_low"), poor = analysis.threshold("efficiency_low");
  if (utilisation < low.value) {
    std::string summary = "kernels ran for " + Percent(utilisation) + " of " + whole;
    if (HasRequests(analysis.trace()))
      summary += ", for " + Percent(asked.Utilisation()) + " of the time with open requests";
    return Conclude(analysis, Judged("a03.utilisation_low", subject.c_str(), "utilisation", utilisation, low),
                    {.severity = asked.Utilisation() < low.value / 2 ? Severity::kMedium : Severity::kLow,
                     .confidence = 0.95,
                     .cost_ns = asked.time_ns - asked.busy_ns,
                     .summary = summary,
                     .recommendation = "See a04 for the reason; larger batches help if the GPU waited for launches."});
  }
  // A busy device: are its kernels too small for it?
  if (!has_fill || efficiency >= poor.value * utilisation) return;
  const std::string summary = "kernels ran for " + Percent(utilisation) + " of " + whole + ", but had blocks for " +
                              Percent(efficiency) + " of the multiprocessors' time at most";
  Conclude(
      analysis, Judged("a03.efficiency_low", subject.c_str(), "efficiency", efficiency, poor),
      {.severity = Severity::kLow,
       .confidence = 0.95,
       .summary = summary,
       .recommendation = "Fill the device with larger batches, or with small kernels on several streams at once."});
}

void OfDevice(Analysis& analysis, uint32_t device, Interval window, double (*counted)(double)) {
  const Trace& trace = analysis.trace();
  std::vector<Fill> fills;
  for (const model::KernelShape& shape : trace.shapes)
    fills.push_back(device == kNone ? Fill() : FillOf(trace.devices[device], shape));
  std::vector<Kernel> kernels;
  std::vector<Interval> times;
  for (const uint32_t row : EachOf(analysis, trace.gpu.size())) {
    if (trace.gpu.kind[row] != GpuKind::kKernel && trace.gpu.kind[row] != GpuKind::kGraph) continue;
    if (trace.streams[trace.gpu.stream[row]].device != device) continue;
    const int64_t begin_ns = std::clamp(trace.gpu.begin_ns[row], window.begin_ns, window.end_ns);
    const int64_t end_ns =
        std::clamp(trace.gpu.begin_ns[row] + trace.gpu.duration_ns[row], window.begin_ns, window.end_ns);
    if (begin_ns == end_ns) continue;
    times.push_back({begin_ns, end_ns});
    if (trace.gpu.shape[row] != kNone) kernels.push_back({times.back(), fills[trace.gpu.shape[row]]});
  }
  const Intervals recorded = RecordedIn(trace, window), busy = Intersection(Union(std::move(times)), recorded);
  const int64_t recorded_ns = TotalNs(recorded);
  const std::string subject = GpuName(trace, device);
  const double utilisation = Share(TotalNs(busy), recorded_ns);
  AddNumber(analysis, "utilisation", subject, utilisation);

  double weighted = 0;
  int64_t known_ns = 0;
  bool has_fill = false;
  for (const Kernel& kernel : kernels) {
    has_fill |= kernel.fill.blocks_per_multiprocessor > 0;
    if (kernel.fill.occupancy < 0) continue;
    const int64_t ns = kernel.time.end_ns - kernel.time.begin_ns;
    const double occupancy = counted == nullptr ? kernel.fill.occupancy : counted(kernel.fill.occupancy);
    weighted += occupancy * static_cast<double>(ns);
    Accumulate(&known_ns, ns);
  }
  const double efficiency = EfficiencyOf(kernels, recorded_ns);
  if (has_fill) AddNumber(analysis, "efficiency", subject, efficiency);
  if (known_ns > 0) AddNumber(analysis, "occupancy", subject, weighted / static_cast<double>(known_ns));
  const bool is_all = recorded_ns == window.end_ns - window.begin_ns;
  Judge(analysis, subject, is_all ? "the window" : "the recorded " + base::Duration(recorded_ns), utilisation,
        AskedOf(trace, recorded, busy), has_fill, efficiency);
}

class Utilisation final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a03", "GPU utilisation", kThresholds); }

  Status Run(Analysis& analysis) override {
    OfTime(analysis, {analysis.trace().window_begin_ns, analysis.trace().window_end_ns});
    return Status();
  }
};

}  // namespace

void OfTime(Analysis& analysis, Interval time, double (*counted)(double)) {
  ForDevicesAtWork(analysis, [&](uint32_t device) { OfDevice(analysis, device, time, counted); });
}

}  // namespace a03

std::unique_ptr<Analyzer> MakeUtilisation() { return std::make_unique<a03::Utilisation>(); }

}  // namespace pitot::catalogue
