// SPDX-License-Identifier: Apache-2.0
//
// A17: what did the window have to wait for, and how much would faster parts save? The critical path leads from the
// last end back through the last enabler of each step; its parts add up to the window. Possible savings come from
// playing the window again, because a second path may be nearly as long. Time without an open request waits for nothing
// that could be faster. For one request `pitot why` says more.
#include <algorithm>
#include <string>

#include "analyze/catalogue/catalogue.h"
#include "analyze/facts/copies.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/open_requests.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/replay.h"
#include "analyze/facts/subjects.h"
#include "model/kernel_name.h"

namespace pitot::catalogue {
namespace a17 {
namespace {

using facts::Add;
using facts::Conclude;
using facts::EachOf;
using facts::HasRequests;
using facts::InfoOf;
using facts::Judged;
using facts::kAll;
using facts::kPathClasses;
using facts::Longest;
using facts::Pace;
using facts::Path;
using facts::PathClass;
using facts::PathClassName;
using facts::Percent;
using facts::Replay;
using facts::Share;
using facts::TimeOf;
using model::kNone;
using model::Trace;

constexpr Threshold kThresholds[] = {
    {"path_share", 0.3, "1", "pitot"},
    {"saved_share", 0.05, "1", "pitot"},     // of the window; less is not a bottleneck: another way is nearly as long
    {"unlinked_share", 0.01, "1", "pitot"},  // of GPU work, with unknown calls
    {"launch_hole", 10000000, "ns", "pitot"},
};

constexpr const char* kNearlyAsLong =
    "Another path is nearly as long, so less of this saves little by itself. Look at the savings from the other parts.";

const char* AdviceFor(PathClass of) {
  switch (of) {
    case PathClass::kCompute:
      return "The GPU is the bottleneck: use faster kernels (a02, a18, a20) or smaller types, or compute less.";
    case PathClass::kCommunication:
      return "Overlap communication with computing, or send less.";
    case PathClass::kCopies:
      return "Copy on a separate stream from pinned memory, or keep data on the GPU (a06 to a08).";
    case PathClass::kLaunch:
    case PathClass::kApi:
      return "Launch less: use CUDA graphs, fused kernels or larger batches (a10).";
    case PathClass::kDispatch:
      return "Run fewer, longer kernels: the GPU needs time between one and the next (a12).";
    case PathClass::kReturn:
      return "Wait less often (a09).";
    default:
      return "The host is the bottleneck: shorten its code between calls, or move it to another thread (a04).";
  }
}

class CriticalPath final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a17", "the critical path", kThresholds); }

  Status Run(Analysis& analysis) override {
    const Trace& trace = analysis.trace();
    uint64_t ops = 0, unlinked = 0;
    for (const uint32_t row : EachOf(analysis, trace.gpu.size())) {
      if (trace.gpu.kind[row] == model::GpuKind::kSpan) continue;
      ++ops;
      unlinked += trace.gpu.call[row] == kNone ? 1 : 0;
    }
    if (ops == 0 || trace.calls.size() == 0) return Status();
    Replay replay(trace, analysis.indexes());
    const Path path = replay.FindPath();
    for (uint32_t k = 0; k < kPathClasses; ++k)
      Add(analysis, (std::string("path_") + PathClassName(static_cast<PathClass>(k))).c_str(), kAll, path.ns[k]);
    const int64_t window_ns = trace.window_end_ns - trace.window_begin_ns;
    int64_t saved_ns[kPathClasses] = {};
    for (uint32_t k = 0; k < kPathClasses; ++k) {
      if (!CanBeFaster(static_cast<PathClass>(k)) || path.ns[k] == 0 || analysis.IsOver()) continue;
      Pace pace;
      pace.of[k] = 0;
      saved_ns[k] = std::max<int64_t>(0, window_ns - replay.Run(pace));
      Add(analysis, (std::string("saved_without_") + PathClassName(static_cast<PathClass>(k))).c_str(), kAll,
          saved_ns[k]);
    }
    Pace no_waits;
    no_waits.without_waits = true;
    Add(analysis, "saved_without_waits", kAll, std::max<int64_t>(0, window_ns - replay.Run(no_waits)));
    DearestKernel(analysis, path, window_ns, &replay);
    Judge(analysis, path, saved_ns, Share(static_cast<int64_t>(unlinked), static_cast<int64_t>(ops)));
    return Status();
  }

 private:
  // The time after the last operation belongs to nobody, and so does the time without a request.
  static bool CanBeFaster(PathClass of) { return of != PathClass::kEnd && of != PathClass::kNoRequest; }

  static void DearestKernel(Analysis& analysis, const Path& path, int64_t window_ns, Replay* replay) {
    const auto dearest = std::max_element(path.kernels.begin(), path.kernels.end(),
                                          [](const auto& a, const auto& b) { return a.second < b.second; });
    if (dearest == path.kernels.end()) return;
    Pace pace;
    pace.kernel = dearest->first;
    pace.of_kernel = 0.5;
    const std::string name = model::ReadKernelName(analysis.trace().strings[dearest->first]).brief;
    Add(analysis, "on_path", name, dearest->second);
    Add(analysis, "saved_at_half", name, std::max<int64_t>(0, window_ns - replay->Run(pace)));
  }

  static void Judge(Analysis& analysis, const Path& path, const int64_t* saved_ns, double unlinked_share) {
    const Trace& trace = analysis.trace();
    const Threshold least = analysis.threshold("path_share");
    uint32_t most = 0;
    for (uint32_t k = 1; k < kPathClasses; ++k) {
      if (CanBeFaster(static_cast<PathClass>(k)) && path.ns[k] > path.ns[most]) most = k;
    }
    const bool has_requests = HasRequests(trace);
    const int64_t no_request_ns = path.ns[static_cast<size_t>(PathClass::kNoRequest)];
    const double share = Share(path.ns[most], trace.window_end_ns - trace.window_begin_ns - no_request_ns);
    if (share < least.value) return;
    const auto of = static_cast<PathClass>(most);
    // One such long launch is a first upload, or records were lost: the trace does not tell which.
    const bool is_hole = of == PathClass::kLaunch && 2 * path.longest_launch_ns > path.ns[most] &&
                         static_cast<double>(path.longest_launch_ns) > analysis.threshold("launch_hole").value;
    const bool is_unlinked = unlinked_share > analysis.threshold("unlinked_share").value;
    std::string summary =
        std::string("the largest part of the critical path") + (has_requests ? " with open requests, " : ", ") +
        Percent(share) + ", was " + (of == PathClass::kHost ? "code between calls" : PathClassName(of)) +
        "; without it the window would be " + base::Duration(saved_ns[most]) + " shorter" +
        (is_unlinked ? "; " + Percent(unlinked_share) + " of GPU work has no call, so this is uncertain"
                     : std::string());
    if (is_hole)
      summary +=
          "; most of it is one gap between a call and its work: a first upload of a graph or module, or lost "
          "records";
    const double saved = Share(saved_ns[most], trace.window_end_ns - trace.window_begin_ns);
    const bool is_bottleneck = saved >= analysis.threshold("saved_share").value;
    Longest longest(EvidenceTable::kGpu, "on the path");
    for (const uint32_t row : path.gpu_rows) longest.Show(row, TimeOf(trace, row));
    Conclude(analysis,
             Judged("a17.critical_path", kAll,
                    has_requests ? "on the path / window without no_request" : "on the path / window", share, least),
             {.confidence = is_hole       ? 0.3
                            : is_unlinked ? 0.4
                                          : 0.8,  // threads that wait for each other are not in it
              .is_undetermined = is_unlinked || is_hole,
              .cost_ns = saved_ns[most],
              .summary = summary,
              .recommendation = is_bottleneck ? AdviceFor(of) : kNearlyAsLong},
             longest);
  }
};

}  // namespace
}  // namespace a17

std::unique_ptr<Analyzer> MakeCriticalPath() { return std::make_unique<a17::CriticalPath>(); }

}  // namespace pitot::catalogue
