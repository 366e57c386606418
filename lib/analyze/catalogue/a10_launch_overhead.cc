// SPDX-License-Identifier: Apache-2.0
//
// A10: is the work too small for its launches? Measures how long launching calls took, how long their work took to
// begin and to run, and how much of the GPU's idle time passed while threads were launching.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/host_work.h"
#include "analyze/facts/launches.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/recorded.h"
#include "analyze/facts/subjects.h"
#include "base/gpu_loss_reason.h"
#include "model/graph_work.h"
#include "pitot/model/indexes.h"

namespace pitot::catalogue {
namespace a10 {
namespace {

using facts::Add;
using facts::AddLaunches;
using facts::AddNumber;
using facts::Conclude;
using facts::EachOf;
using facts::ForDevicesAtWork;
using facts::GpuName;
using facts::InfoOf;
using facts::Judged;
using facts::kAll;
using facts::Launch;
using facts::Percent;
using facts::SeverityOf;
using facts::Share;
using model::Interval;
using model::Intervals;
using model::IsOfGraph;
using model::kNone;
using model::Trace;

constexpr Threshold kThresholds[] = {
    {"launch_share", 0.1, "1", "TensorRT-LLM"}, {"short_kernel", 10000, "ns", "TraceLens"},
    {"short_share", 0.25, "1", "TraceLens"},    {"slow_call", 50000, "ns", "HTA"},
    {"slow_launch", 100000, "ns", "HTA"},       {"launch_hole", 10000000, "ns", "pitot"},
};

class LaunchOverhead final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a10", "launch overhead", kThresholds); }

  Status Run(Analysis& analysis) override {
    uint64_t without_work = 0;
    for (const model::GpuLossRow& loss : analysis.trace().gpu_losses) {
      const std::string_view reason = analysis.trace().strings[loss.reason];
      if (reason == base::kLaunchWithoutWork || reason == base::kGraphWithoutWork) without_work += loss.records;
    }
    if (without_work != 0) AddNumber(analysis, "launches_without_work", kAll, static_cast<double>(without_work));
    // The costs of launches are known from their work.
    const bool is_recorded = facts::HasGpuWork(analysis.trace());
    if (!is_recorded && without_work == 0) AddNumber(analysis, "launches", kAll, facts::kNotRecorded);
    if (is_recorded && (without_work == 0 || analysis.trace().gpu.size() != 0))
      AddLaunches(analysis, Launches(analysis));
    AddGraphLaunches(analysis);
    AddOfRequests(analysis);
    ForDevicesAtWork(analysis, [&](uint32_t device) { OfDevice(analysis, device); });
    return Status();
  }

 private:
  // A graph is launched by one call, however many kernels it has.
  static void AddGraphLaunches(Analysis& analysis) {
    const Trace& trace = analysis.trace();
    std::vector<bool> launches_graph(trace.calls.size());
    for (const uint32_t row : EachOf(analysis, trace.gpu.size())) {
      const uint32_t call = trace.gpu.call[row];
      if (call != kNone && trace.gpu.kind[row] != model::GpuKind::kSpan) launches_graph[call] = IsOfGraph(trace, row);
    }
    const auto launches = std::count(launches_graph.begin(), launches_graph.end(), true);
    if (launches != 0) AddNumber(analysis, "graph_launches", kAll, static_cast<double>(launches));
  }
  // Counts requests that were recorded all of their time.
  static void AddOfRequests(Analysis& analysis) {
    const Trace& trace = analysis.trace();
    if (trace.requests.empty()) return;
    const std::vector<bool> are_recorded = model::AreRequestsRecorded(trace);
    const auto recorded = static_cast<double>(std::count(are_recorded.begin(), are_recorded.end(), true));
    double launches = 0;
    for (const uint32_t row : EachOf(analysis, trace.gpu.size())) {
      if (trace.gpu.kind[row] == model::GpuKind::kSpan || model::IsNobodys(trace, row)) continue;
      const uint32_t call = trace.gpu.call[row], batch = trace.calls.batch[call];
      launches += batch != kNone ? ShareOf(trace, batch, are_recorded) : are_recorded[trace.calls.request[call]];
    }
    AddNumber(analysis, "launches_a_request", kAll, recorded != 0 ? launches / recorded : facts::kNotRecorded);
  }
  // The share of the batch's members that were recorded all the time; 1 if none is known.
  static double ShareOf(const Trace& trace, uint32_t batch, const std::vector<bool>& are_recorded) {
    const model::BatchRow& row = trace.batches[batch];
    uint32_t members = 0, recorded = 0;
    for (uint32_t member = row.first_member; member < row.first_member + row.member_count; ++member) {
      const uint32_t request = trace.members[member].request;
      if (request == kNone) continue;
      ++members;
      recorded += are_recorded[request];
    }
    return members == 0 ? 1 : static_cast<double>(recorded) / members;
  }

  static std::vector<Launch> Launches(Analysis& analysis) {
    const Trace& trace = analysis.trace();
    std::vector<Launch> launches;
    for (const uint32_t row : EachOf(analysis, trace.gpu.size())) {
      const uint32_t call = trace.gpu.call[row];
      if (call == kNone || trace.gpu.kind[row] == model::GpuKind::kSpan) continue;
      const int64_t end_ns = trace.CallEnd(call);
      launches.push_back({end_ns - trace.calls.begin_ns[call], trace.gpu.duration_ns[row],
                          std::max<int64_t>(0, trace.gpu.begin_ns[row] - end_ns)});
    }
    return launches;
  }

  struct Kernels {
    uint64_t count = 0, short_ones = 0;
    std::vector<uint32_t> examples;  // the first few short ones
  };
  static Kernels KernelsOf(Analysis& analysis, uint32_t device) {
    const Trace& trace = analysis.trace();
    const Threshold brief = analysis.threshold("short_kernel");
    Kernels kernels;
    for (const uint32_t row : EachOf(analysis, trace.gpu.size())) {
      if (trace.streams[trace.gpu.stream[row]].device != device) continue;
      if (trace.gpu.kind[row] != model::GpuKind::kKernel) continue;
      ++kernels.count;
      if (static_cast<double>(trace.gpu.duration_ns[row]) >= brief.value) continue;
      ++kernels.short_ones;
      if (kernels.examples.size() < 3) kernels.examples.push_back(row);
    }
    return kernels;
  }

  // When threads launched a device's work.
  static Intervals LaunchingOf(Analysis& analysis, uint32_t device) {
    const Trace& trace = analysis.trace();
    std::vector<bool> launches_here(trace.calls.size());
    for (const uint32_t row : EachOf(analysis, trace.gpu.size())) {
      const bool is_here = trace.streams[trace.gpu.stream[row]].device == device;
      if (is_here && trace.gpu.call[row] != kNone) launches_here[trace.gpu.call[row]] = true;
    }
    const model::WaitingCalls& waiting = analysis.indexes().waiting;
    std::vector<Interval> launching;
    for (const uint32_t call : EachOf(analysis, trace.calls.size())) {
      // Calls that wait for their own work (copies) are not an overhead of launching.
      if (launches_here[call] && !waiting.Has(call))
        launching.push_back({trace.calls.begin_ns[call], trace.CallEnd(call)});
    }
    return Union(std::move(launching));
  }

  static void OfDevice(Analysis& analysis, uint32_t device) {
    const Trace& trace = analysis.trace();
    const Intervals busy = DeviceBusy(trace, device);
    if (busy.empty()) return;
    const Kernels kernels = KernelsOf(analysis, device);
    // Launching not hidden by the GPU's own work.
    const Intervals extent = facts::RecordedIn(trace, {busy.front().begin_ns, busy.back().end_ns});
    const Intervals exposed = Intersection(Difference(extent, busy), LaunchingOf(analysis, device));
    const std::string subject = GpuName(trace, device);
    AddNumber(analysis, "kernels", subject, static_cast<double>(kernels.count));
    AddNumber(analysis, "short_kernels", subject, static_cast<double>(kernels.short_ones));
    Add(analysis, "exposed_launching", subject, TotalNs(exposed));
    Judge(analysis, subject, kernels, exposed, TotalNs(extent));
  }

  static void Judge(Analysis& analysis, const std::string& subject, const Kernels& kernels, const Intervals& exposed,
                    int64_t extent_ns) {
    const Threshold most = analysis.threshold("launch_share"), many = analysis.threshold("short_share");
    const Threshold hole = analysis.threshold("launch_hole");
    const int64_t exposed_ns = TotalNs(exposed);
    const double share = Share(exposed_ns, extent_ns);
    if (share <= most.value) return;
    const Trace& trace = analysis.trace();
    std::vector<Evidence> evidence;
    for (const uint32_t row : kernels.examples) {
      Evidence example;
      example.table = EvidenceTable::kGpu;
      example.first_row = row;
      example.rows = 1;
      example.begin_ns = trace.gpu.begin_ns[row];
      example.end_ns = example.begin_ns + trace.gpu.duration_ns[row];
      example.note = "a short kernel";
      evidence.push_back(example);
    }
    const double short_share =
        kernels.count == 0 ? 0 : static_cast<double>(kernels.short_ones) / static_cast<double>(kernels.count);
    const bool is_short = short_share > many.value;
    std::string summary = "idle for " + base::Duration(exposed_ns) + " while threads launched its work; " +
                          Percent(short_share) + " of its " + base::Count(kernels.count) + " kernels are short";
    int64_t longest_ns = 0;
    for (const Interval& piece : exposed) longest_ns = std::max(longest_ns, piece.end_ns - piece.begin_ns);
    // Launches are many and short. One that takes most of the time loads a module, uploads a graph, or has records
    // missing.
    const bool is_one_call = 2 * longest_ns > exposed_ns && static_cast<double>(longest_ns) > hole.value;
    if (is_one_call) summary += "; most of it, " + base::Duration(longest_ns) + ", in one call";
    Conclude(
        analysis,
        Judged("a10.launch_bound", subject.c_str(), "idle while launching / (last end - first begin)", share, most),
        {.severity = is_one_call ? Severity::kLow : SeverityOf(share, most.value),
         .confidence = is_one_call ? 0.3
                       : is_short  ? 0.9
                                   : 0.7,  // two independent signs, or one
         .is_undetermined = is_one_call,
         .cost_ns = exposed_ns,
         .summary = summary,
         .recommendation =
             is_one_call
                 ? "Look at that call: it loaded a module or uploaded a graph for the first time, or records were lost."
             : is_short ? "Replay the kernels as a CUDA graph, fuse them, or make them longer with larger batches."
                        : "Launch calls take long: make fewer, from one thread, or use a CUDA graph."},
        evidence);
  }
};

}  // namespace
}  // namespace a10

std::unique_ptr<Analyzer> MakeLaunchOverhead() { return std::make_unique<a10::LaunchOverhead>(); }

}  // namespace pitot::catalogue
