// SPDX-License-Identifier: Apache-2.0
//
// A04: why was the GPU idle? Each gap between two operations of a device belongs to the one that ended it: until its
// launch to the launching thread's work, from there on to the launch. If that thread was in a recorded wait of the
// host, it had nothing to launch: there was no request, or requests were elsewhere. Time in which the work of GPUs was
// not recorded is in no gap.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/open_requests.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/quality.h"
#include "analyze/facts/recorded.h"
#include "analyze/facts/subjects.h"
#include "analyze/facts/thread_time.h"
#include "model/flatten.h"
#include "pitot/model/index.h"
#include "pitot/model/indexes.h"

namespace pitot::catalogue {
namespace a04 {
namespace {

using facts::Add;
using facts::AddNumber;
using facts::Conclude;
using facts::EachOf;
using facts::ForDevicesAtWork;
using facts::GpuName;
using facts::HasRequests;
using facts::InfoOf;
using facts::InnermostOf;
using facts::Judged;
using facts::Longest;
using facts::OpenRequests;
using facts::Percent;
using facts::SeverityOf;
using facts::Share;
using model::HostClass;
using model::Interval;
using model::Intervals;
using model::kNone;
using model::Trace;

constexpr Threshold kThresholds[] = {
    {"idle_share", 0.15, "1", "TraceLens"},
    {"kernel_wait", 30000, "ns", "HTA"},  // read only in lib/peers
    {"launch_hole", 10000000, "ns", "pitot"},
};

struct Gap {
  Interval time;
  uint32_t gpu_row = kNone;  // ended the gap
  int64_t launched_ns = 0;   // within it, or its beginning; its end if unknown
};

// The parts of gaps. The host's classes come first.
enum Cause : uint32_t {
  kNoRequest = model::kHostClasses,  // the launching thread was in a wait of the host while no request was open
  kWait,                             // the same while one was
  kUntraced,                         // the launching thread recorded nothing
  kLaunch,                           // from the call to the work
  kDispatch,                         // the work was launched before the gap: the GPU's own time between two operations
  kUnknown,                          // the work that ended the gap has no call
  kCauses,
};
const char* CauseName(uint32_t cause) {
  switch (cause) {
    case kNoRequest:
      return "idle_no_request";
    case kWait:
      return "idle_wait";
    case kUntraced:
      return "idle_untraced";
    case kLaunch:
      return "idle_launch";
    case kDispatch:
      return "idle_dispatch";
    case kUnknown:
      return "idle_unknown";
    default:
      return nullptr;
  }
}

std::vector<Gap> GapsOf(Analysis& analysis, uint32_t device) {
  const Trace& trace = analysis.trace();
  std::vector<uint32_t> rows;
  for (const uint32_t row : EachOf(analysis, trace.gpu.size())) {
    if (trace.gpu.kind[row] != model::GpuKind::kSpan && trace.streams[trace.gpu.stream[row]].device == device)
      rows.push_back(row);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [&](uint32_t a, uint32_t b) { return trace.gpu.begin_ns[a] < trace.gpu.begin_ns[b]; });
  std::vector<Gap> gaps;
  int64_t busy_until_ns = INT64_MAX;
  for (const uint32_t row : rows) {
    const int64_t begin_ns = trace.gpu.begin_ns[row], end_ns = begin_ns + trace.gpu.duration_ns[row];
    const bool is_recorded = trace.depths.empty() || facts::DepthOf(trace, busy_until_ns, begin_ns) != Depth::kScopes;
    if (begin_ns > busy_until_ns && is_recorded) {
      const uint32_t call = trace.gpu.call[row];
      const int64_t launched_ns = call == kNone ? begin_ns : trace.calls.begin_ns[call];
      gaps.push_back({{busy_until_ns, begin_ns}, row, std::clamp(launched_ns, busy_until_ns, begin_ns)});
    }
    busy_until_ns = busy_until_ns == INT64_MAX ? end_ns : std::max(busy_until_ns, end_ns);
  }
  return gaps;
}

// When a thread was in a PITOT_WAIT, pitot::Mutex or pitot::ConditionVariable, and in nothing inside it.
Intervals RecordedWaits(const Trace& trace, uint32_t thread) {
  Intervals waits;
  if (thread == kNone) return waits;
  model::VisitSegments(trace, thread, {INT64_MIN, INT64_MAX}, [&](const model::Segment& segment) {
    if (trace.sites[trace.events.site[segment.event]].kind == SiteKind::kWait)
      waits.push_back({segment.begin_ns, segment.end_ns});
  });
  return model::Union(std::move(waits));
}

class IdleGaps final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a04", "why GPUs were idle", kThresholds); }

  Status Run(Analysis& analysis) override {
    ForDevicesAtWork(analysis, [&](uint32_t device) { OfDevice(analysis, device); });
    return Status();
  }

 private:
  static void OfDevice(Analysis& analysis, uint32_t device) {
    const Trace& trace = analysis.trace();
    const std::vector<Gap> gaps = GapsOf(analysis, device);
    std::vector<int64_t> causes(kCauses);
    std::map<uint32_t, Intervals> waits;  // by the launching thread: until it launched
    int64_t idle_ns = 0;
    for (const Gap& gap : gaps) {
      idle_ns += gap.time.end_ns - gap.time.begin_ns;
      const uint32_t call = trace.gpu.call[gap.gpu_row];
      if (call == kNone) {
        causes[kUnknown] += gap.time.end_ns - gap.time.begin_ns;
        continue;
      }
      const bool was_queued = gap.launched_ns == gap.time.begin_ns;
      causes[was_queued ? kDispatch : kLaunch] += gap.time.end_ns - gap.launched_ns;
      if (!was_queued) waits[trace.calls.thread[call]].push_back({gap.time.begin_ns, gap.launched_ns});
    }
    const Intervals requests = OpenRequests(trace);
    const model::ThreadSets threads(trace);
    for (const auto& [thread, times] : waits) {
      causes[kUntraced] += TotalNs(times);
      const auto count = [&, &until = times](uint32_t cause, const Intervals& when) {
        const int64_t ns = TotalNs(Intersection(when, until));
        causes[cause] += ns;
        causes[kUntraced] -= ns;
      };
      const std::vector<Intervals> classes = InnermostOf(threads, thread);
      Intervals recorded = RecordedWaits(trace, thread);
      for (uint32_t k = 0; k < model::kHostClasses; ++k) {
        // Calls and waits for data say more than a wait around them; scopes and operators around it say less.
        const bool is_around = k >= static_cast<uint32_t>(HostClass::kOperator);
        count(k, is_around ? Difference(classes[k], recorded) : classes[k]);
        if (!is_around) recorded = Difference(recorded, classes[k]);
      }
      count(kNoRequest, HasRequests(trace) ? Difference(recorded, requests) : Intervals());
      count(kWait, HasRequests(trace) ? Intersection(recorded, requests) : recorded);
    }

    const Intervals busy = DeviceBusy(trace, device);
    const int64_t extent_ns =
        busy.empty() ? 0 : TotalNs(facts::RecordedIn(trace, {busy.front().begin_ns, busy.back().end_ns}));
    const std::string subject = GpuName(trace, device);
    Add(analysis, "idle", subject, idle_ns);
    AddNumber(analysis, "gaps", subject, static_cast<double>(gaps.size()));
    for (uint32_t cause = 0; cause < kCauses; ++cause) Add(analysis, NameOf(cause).c_str(), subject, causes[cause]);
    Judge(analysis, subject, gaps, causes, idle_ns, extent_ns);
  }

  static std::string NameOf(uint32_t cause) {
    const char* const name = CauseName(cause);
    return name != nullptr ? name : std::string("idle_") + HostClassName(static_cast<HostClass>(cause));
  }

  static void Judge(Analysis& analysis, const std::string& subject, const std::vector<Gap>& gaps,
                    const std::vector<int64_t>& causes, int64_t idle_ns, int64_t extent_ns) {
    const Threshold most = analysis.threshold("idle_share"), hole = analysis.threshold("launch_hole");
    const double share = Share(idle_ns, extent_ns);
    if (share <= most.value) return;
    Longest longest(EvidenceTable::kGpu, "this ended a gap");
    for (const Gap& gap : gaps) longest.Show(gap.gpu_row, gap.time);
    const auto cause = static_cast<uint32_t>(std::max_element(causes.begin(), causes.end()) - causes.begin());
    std::string summary = "idle for " + Percent(share) + " of the time between its first and last work; " +
                          (2 * causes[cause] > idle_ns ? "most" : "the largest part") + " of it, " +
                          base::Duration(causes[cause]) + ", was " + TextOf(cause);
    if (cause == kNoRequest) {
      std::vector<int64_t> rest = causes;
      rest[kNoRequest] = 0;
      const auto next = static_cast<uint32_t>(std::max_element(rest.begin(), rest.end()) - rest.begin());
      if (rest[next] > 0) summary += "; then " + base::Duration(rest[next]) + " " + TextOf(next);
    }
    // Such a long launch is a first upload, or records were lost: the trace does not tell which.
    const Gap& largest = *std::max_element(gaps.begin(), gaps.end(), [](const Gap& a, const Gap& b) {
      return a.time.end_ns - a.time.begin_ns < b.time.end_ns - b.time.begin_ns;
    });
    const bool is_hole = cause == kLaunch && static_cast<double>(largest.time.end_ns - largest.launched_ns) >
                                                 std::max(hole.value, 0.5 * static_cast<double>(idle_ns));
    if (is_hole)
      summary += ", in one gap between a call and its first work: a first upload of a graph or module, or lost records";
    Conclude(analysis, Judged("a04.idle", subject.c_str(), "idle / (last end - first begin)", share, most),
             {.severity = cause == kNoRequest ? Severity::kLow : SeverityOf(share, most.value),
              .confidence = is_hole ? 0.3 : 0.9,
              .is_undetermined = is_hole,
              .cost_ns = idle_ns - causes[kNoRequest],
              .summary = summary,
              .recommendation = AdviceFor(cause)},
             longest);
  }

  static std::string TextOf(uint32_t cause) {
    switch (cause) {
      case kNoRequest:
        return "without any request, with the launching thread in a recorded wait";
      case kWait:
        return "in a recorded wait of the launching thread";
      case static_cast<uint32_t>(HostClass::kScope):
        return "in scopes of the launching thread, outside calls";
      default:
        return NameOf(cause).substr(5);
    }
  }

  static const char* AdviceFor(uint32_t cause) {
    switch (cause) {
      case kNoRequest:
        return "None: the GPU was idle because there was no work.";
      case kWait:
        return "Find the reason for the wait: requests still in preparation (a05), a filling batch, or a lock.";
      case static_cast<uint32_t>(HostClass::kScope):
        return "Look at the work of its scopes between launches (`pitot top --by scope`), and do it elsewhere or "
               "ahead of time.";
      case static_cast<uint32_t>(HostClass::kSynchronization):
        return "Launch before waiting: the thread waited for the GPU before giving it more work (a09).";
      case static_cast<uint32_t>(HostClass::kAllocation):
        return "Allocate ahead of time, or from a pool: the thread was in the driver's allocator.";
      case static_cast<uint32_t>(HostClass::kApi):
        return "Launch less: use CUDA graphs, larger batches or fused kernels (a10).";
      case static_cast<uint32_t>(HostClass::kLoader):
        return "Use more data workers, or prefetch: the thread waited for its next batch (a05).";
      case static_cast<uint32_t>(HostClass::kOperator):
        return "Use CUDA graphs or compilation: the thread was in the framework, between launches.";
      case kLaunch:
        return "Launches were slow to arrive: look for other work of the device and the driver.";
      case kDispatch:
        return "The work was queued: look for dependencies between streams, or kernels too short to hide dispatch.";
      case kUnknown:
        return "Record launch calls to learn why.";
      default:
        return "The launching thread was in unrecorded code: instrument it.";
    }
  }
};

}  // namespace
}  // namespace a04

std::unique_ptr<Analyzer> MakeIdleGaps() { return std::make_unique<a04::IdleGaps>(); }

}  // namespace pitot::catalogue
