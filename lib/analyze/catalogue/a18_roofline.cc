// SPDX-License-Identifier: Apache-2.0
//
// A18: is an operator bound by computing or by memory, and how close is it to that bound? The analytic roofline
// (Williams, Waterman, Patterson 2009). It takes floating point operations as recorded (TorchOptions::shapes), the
// least bytes for the tensors, the time of the kernels, and the data sheet's peaks at the recorded clock. Without
// counters, caches and repeated moves of a kernel are unknown. So bytes are a lower bound, and an operator found
// memory-bound really is.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/facts/arguments.h"
#include "analyze/facts/calls_within.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/gpu_counters.h"
#include "analyze/facts/operator_work.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/peaks.h"
#include "analyze/facts/shape_reason.h"
#include "analyze/facts/subjects.h"
#include "model/held.h"

namespace pitot::catalogue {
namespace a18 {
namespace {

using facts::Accumulate;
using facts::Add;
using facts::AddNumber;
using facts::CallsWithin;
using facts::Conclude;
using facts::DeviceOf;
using facts::EachOf;
using facts::EventNameId;
using facts::FindShapeReason;
using facts::GpuCounters;
using facts::GpuCountersOf;
using facts::GpuKey;
using facts::GpuName;
using facts::InfoOf;
using facts::Judged;
using facts::LeastBytes;
using facts::Longest;
using facts::OperatorWork;
using facts::Peaks;
using facts::PeaksOf;
using facts::Precision;
using facts::PrecisionOf;
using facts::ShapeReason;
using facts::Share;
using facts::TensorShape;
using facts::UsesTf32;
using model::kNone;
using model::StringId;
using model::Trace;

constexpr Threshold kThresholds[] = {
    {"op_share", 0.05, "1", "pitot"},
    {"efficiency_low", 0.15, "1", "Nsight Compute"},
    {"efficiency_high", 0.6, "1", "Nsight Compute"},
    {"peak_flops", 0, "flop/ns", "0: the data sheet's"},
    {"peak_bandwidth", 0, "bytes/ns", "0: the data sheet's"},
};

// Operators of a name and sizes on a device.
struct Group {
  std::string_view name, shapes;
  uint32_t device = 0;
  Precision precision = Precision::kUnknown;
  uint64_t calls = 0;
  double flops = 0, bytes = 0;  // bytes 0: unknown
  int64_t ns = 0;
  ShapeReason reason;  // of the first
  Longest longest{EvidenceTable::kEvents, "one of these operators"};
};

class Roofline final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a18", "compute-bound or memory-bound", kThresholds); }

  Status Run(Analysis& analysis) override {
    const Trace& trace = analysis.trace();
    OperatorWork work(trace);
    if (!work.IsAnywhere()) return Status();
    std::map<uint32_t, std::vector<Group>> devices = Find(analysis, &work);
    for (auto& [device, groups] : devices) {
      if (device != kNone) OfDevice(analysis, device, &groups);
      if (analysis.IsOver()) break;
    }
    return Status();
  }

 private:
  // The kernels of an operator.
  struct Kernels {
    int64_t ns = 0;
    uint32_t device = kNone;
    bool is_tf32 = false;
  };
  static Kernels KernelsOf(const Trace& trace, const CallsWithin& calls, uint32_t event,
                           std::vector<int8_t>* is_tensor_float) {
    Kernels kernels;
    calls.EachGpu(event, [&](uint32_t row) {
      if (trace.gpu.kind[row] != model::GpuKind::kKernel) return;
      Accumulate(&kernels.ns, trace.gpu.duration_ns[row]);
      kernels.device = trace.streams[trace.gpu.stream[row]].device;
      int8_t& known = (*is_tensor_float)[trace.gpu.name[row]];
      if (known < 0) known = UsesTf32(trace.strings[trace.gpu.name[row]]);
      kernels.is_tf32 |= known != 0;
    });
    return kernels;
  }
  static std::map<uint32_t, std::vector<Group>> Find(Analysis& analysis, OperatorWork* work) {
    const Trace& trace = analysis.trace();
    const CallsWithin calls(trace, analysis.indexes().launches);
    std::vector<int8_t> is_tensor_float(trace.strings.size(), -1);
    std::map<std::tuple<uint32_t, StringId, std::string_view, std::string_view>, Group> groups;
    for (const uint32_t event : EachOf(analysis, trace.events.size())) {
      const double done = work->Flops(event);
      if (done <= 0) continue;
      const Kernels kernels = KernelsOf(trace, calls, event, &is_tensor_float);
      if (kernels.ns == 0) continue;
      const std::vector<TensorShape>& tensors = work->Tensors(event);
      const StringId name = EventNameId(trace, event);
      Group& group = groups[{kernels.device, name, work->ShapesText(event), work->TypesText(event)}];
      if (group.calls == 0 && kernels.device != kNone)
        group.reason = FindShapeReason(trace.strings[name], tensors, work->InputsText(event),
                                       trace.devices[kernels.device].multiprocessors);
      group.name = trace.strings[name];
      group.shapes = work->ShapesText(event);
      group.device = kernels.device;
      if (!tensors.empty()) group.precision = PrecisionOf(tensors.front().type);
      if (group.precision == Precision::kF32 && kernels.is_tf32) group.precision = Precision::kTf32;
      ++group.calls;
      group.flops += done;
      group.bytes += LeastBytes(group.name, tensors, done);
      Accumulate(&group.ns, kernels.ns);
      group.longest.Show(event, {trace.events.begin_ns[event], trace.EventEnd(event)});
    }
    std::map<uint32_t, std::vector<Group>> devices;
    for (auto& [key, group] : groups) devices[group.device].push_back(std::move(group));
    return devices;
  }

  // In MHz, the median of the records over time; 0: unknown.
  static double ClockOf(const Trace& trace, uint32_t device) {
    const std::map<GpuKey, GpuCounters> gpus = GpuCountersOf(trace);
    for (const auto& [key, gpu] : gpus) {
      if (DeviceOf(trace, gpus, key) != device || gpu.Find(base::GpuCounter::kSmClock) == kNone) continue;
      std::vector<model::Held> clocks = ValuesOf(trace, gpu.Find(base::GpuCounter::kSmClock));
      if (clocks.empty()) continue;
      std::sort(clocks.begin(), clocks.end(),
                [](const model::Held& a, const model::Held& b) { return a.value < b.value; });
      int64_t left_ns = 0;
      for (const model::Held& held : clocks) left_ns += held.ns();
      left_ns /= 2;
      for (const model::Held& held : clocks) {
        if ((left_ns -= held.ns()) < 0) return held.value;
      }
    }
    return 0;
  }

  struct Roof {
    double flops_per_ns = 0, bytes_per_ns = 0;
    bool IsKnown() const { return flops_per_ns > 0 && bytes_per_ns > 0; }
  };
  static Roof RoofOf(Analysis& analysis, uint32_t device, Precision precision, double megahertz) {
    const model::DeviceRow& row = analysis.trace().devices[device];
    const Peaks peaks = PeaksOf(analysis.trace().strings[row.name], precision);
    Roof roof = {peaks.flops_per_clock * row.multiprocessors * (megahertz > 0 ? megahertz : peaks.megahertz) * 1e-3,
                 peaks.bytes_per_ns};
    if (const double set = analysis.threshold("peak_flops").value; set > 0) roof.flops_per_ns = set;
    if (const double set = analysis.threshold("peak_bandwidth").value; set > 0) roof.bytes_per_ns = set;
    return roof;
  }

  static void OfDevice(Analysis& analysis, uint32_t device, std::vector<Group>* groups) {
    const Trace& trace = analysis.trace();
    const double megahertz = ClockOf(trace, device);
    const int64_t busy_ns = TotalNs(DeviceBusy(trace, device));
    int64_t compute_ns = 0, memory_ns = 0, unknown_ns = 0;
    for (const Group& group : *groups) {
      const Roof roof = RoofOf(analysis, device, group.precision, megahertz);
      if (!roof.IsKnown() || group.bytes == 0) {
        Accumulate(&unknown_ns, group.ns);
        continue;
      }
      const double intensity = group.flops / group.bytes;
      const bool is_memory = intensity * roof.bytes_per_ns < roof.flops_per_ns;
      Accumulate(is_memory ? &memory_ns : &compute_ns, group.ns);
      if (Share(group.ns, busy_ns) >= analysis.threshold("op_share").value)
        Judge(analysis, group, is_memory, std::min(roof.flops_per_ns, intensity * roof.bytes_per_ns), megahertz > 0);
    }
    const std::string subject = GpuName(trace, device);
    Add(analysis, "compute_bound", subject, compute_ns);
    Add(analysis, "memory_bound", subject, memory_ns);
    Add(analysis, "bound_unknown", subject, unknown_ns);
    if (unknown_ns <= compute_ns + memory_ns) return;
    const Threshold least = analysis.threshold("op_share");
    const double share = Share(unknown_ns, busy_ns);
    if (share < least.value) return;
    const std::string summary = "floating point operations were recorded, but \"" +
                                std::string(trace.strings[trace.devices[device].name]) +
                                "\" has no known peaks for their number types, or sizes of their tensors are missing";
    Conclude(analysis,
             Judged("a18.unknown", subject.c_str(), "GPU time of such operators / time at work", share, least),
             {.confidence = 0.3,
              .is_undetermined = true,
              .summary = summary,
              .recommendation = "Pass --set a18.peak_flops= and --set a18.peak_bandwidth= (per ns)."});
  }

  static void Judge(Analysis& analysis, const Group& group, bool is_memory, double most_flops_per_ns, bool has_clock) {
    const Threshold low = analysis.threshold("efficiency_low"), high = analysis.threshold("efficiency_high");
    const double efficiency = group.flops / static_cast<double>(group.ns) / most_flops_per_ns;
    const std::string subject = std::string(group.name) + " " + std::string(group.shapes);
    AddNumber(analysis, "intensity", subject, group.flops / group.bytes, "flop/byte");
    AddNumber(analysis, "efficiency", subject, efficiency);
    const bool is_low = efficiency <= low.value;
    // A size that explains it is worth saying earlier.
    const bool is_shape = !is_low && efficiency < high.value && !group.reason.text.empty();
    // Above the roof: operations not really done (masks), or a higher clock.
    if (!is_low && !is_shape && (efficiency < high.value || efficiency > 1.2)) return;
    const bool is_slow = is_low || is_shape;
    const auto spare_ns = static_cast<int64_t>(std::clamp(static_cast<double>(group.ns) * (1 - efficiency), 0.0, 9e18));
    const char* const bound = is_memory ? "memory" : "computing";
    std::string summary = base::Format("%s calls at %.0f %% of the limit set by %s (", base::Count(group.calls).c_str(),
                                       100 * efficiency, bound) +
                          base::Format("%.3g Tflop/s, %.3g flop/byte)",
                                       group.flops / static_cast<double>(group.ns) * 1e-3, group.flops / group.bytes);
    if (is_slow && !group.reason.text.empty()) summary += ": " + group.reason.text;
    Conclude(analysis,
             Judged(is_low      ? "a18.low_efficiency"
                    : is_shape  ? "a18.shape"
                    : is_memory ? "a18.memory_bound"
                                : "a18.compute_bound",
                    subject.c_str(), "achieved / attainable", efficiency, is_low ? low : high),
             {.severity = is_slow ? Severity::kLow : Severity::kInfo,
              .confidence = has_clock ? 0.7 : 0.6,
              .cost_ns = is_slow ? spare_ns : 0,
              .summary = summary,
              .recommendation = AdviceFor(group, is_slow, is_memory)},
             group.longest);
  }
  static const char* AdviceFor(const Group& group, bool is_slow, bool is_memory) {
    if (is_slow && !group.reason.text.empty()) return group.reason.advice;
    if (is_slow)
      return "Neither computing nor memory is busy: look at its launch shape (a20), larger batches or other kernels.";
    return is_memory
               ? "Only fewer bytes make it faster: fuse it, use smaller types, or larger batches if weights dominate."
               : "Only fewer operations or a smaller type make it faster.";
  }
};

}  // namespace
}  // namespace a18

std::unique_ptr<Analyzer> MakeRoofline() { return std::make_unique<a18::Roofline>(); }

}  // namespace pitot::catalogue
