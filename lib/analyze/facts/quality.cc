// SPDX-License-Identifier: Apache-2.0
#include "analyze/facts/quality.h"

#include <algorithm>

#include "analyze/facts/missing_gpu_work.h"
#include "analyze/facts/subjects.h"
#include "base/columns.h"
#include "base/gpu_loss_reason.h"
#include "base/memory_option.h"

namespace pitot::facts {

using model::Interval;
using model::kNone;
using model::Trace;

namespace {

constexpr double kLeastLost = 0.001;  // of the window: less is shown as 0.0 %

bool IsEarly(const model::LaunchLag& lag, const QualityLimits& limits) {
  return lag.rows != 0 && lag.smallest_ns < -limits.skew_ns;
}
// With a full queue, work begins late by any clock. A tenth of the work tells: a queue has gaps now and then.
bool IsLate(const model::LaunchLag& lag, const QualityLimits& limits) {
  return lag.smallest_ns > limits.late_ns && lag.rows >= limits.least_launches &&
         lag.waited_for_nothing * 10 >= lag.rows;
}
model::LaunchLag LagOf(const Trace& trace, uint32_t device, const QualityLimits& limits) {
  return FindLaunchLag(trace, device, INT64_MIN, INT64_MAX, std::max<int64_t>(1, limits.late_ns));
}

class Inspector {
 public:
  Inspector(const Trace& trace, const QualityLimits& limits) : trace_(trace), limits_(limits) {}

  std::vector<Damage> Inspect() {
    InspectLosses();
    AddMissingGpuWork(trace_, &damages_);
    InspectGpuRows();
    InspectClocks();
    InspectOverheads();
    InspectRequests();
    std::stable_sort(damages_.begin(), damages_.end(),
                     [](const Damage& a, const Damage& b) { return a.multiplier < b.multiplier; });
    return std::move(damages_);
  }

 private:
  // `lost` is the missing share.
  void Add(const char* code, std::string subject, std::string caveat, const char* advice, const char* metric,
           double value, const char* limit, uint32_t spoils, double lost, Interval where) {
    damages_.push_back({code, std::move(subject), std::move(caveat), advice, metric, value, limit, spoils,
                        std::max(kLeastMultiplier, 1 - lost), where});
  }
  Interval Window() const { return {trace_.window_begin_ns, trace_.window_end_ns}; }
  double ShareOf(std::vector<Interval> parts) const {
    for (Interval& part : parts)
      part = {std::clamp(part.begin_ns, trace_.window_begin_ns, trace_.window_end_ns),
              std::clamp(part.end_ns, trace_.window_begin_ns, trace_.window_end_ns)};
    return Share(TotalNs(Union(std::move(parts))), trace_.window_end_ns - trace_.window_begin_ns);
  }

  static const char* AdviceOn(const base::MemoryOptions& options) {
    if (!options.has_opencl())
      return options.has_cupti() ? "Give the collector more memory (CuptiOptions::memory_bytes)."
                                 : "Read the reasons of the losses in the report: more memory does not help.";
    return options.has_cupti()
               ? "Give the collectors more memory (CuptiOptions::memory_bytes and OpenClOptions::memory_bytes)."
               : "Give the collector more memory (OpenClOptions::memory_bytes).";
  }

  void InspectLosses() {
    std::vector<Interval> lost, lost_gpu;
    uint64_t events = 0, records = 0;
    for (const model::LossRow& loss : trace_.losses) {
      if (loss.reason == model::LossReason::kDamaged) {
        Add("a39.damaged", kAll, "the dump is damaged or was cut off: the missing part is not known",
            "Copy the dump again, or try `pitot recover`.", "damaged chunks", 1, "", kReadsAll, 1, Window());
        continue;
      }
      if (!AreEventsLost(loss.reason)) continue;
      lost.push_back({loss.begin_ns, loss.end_ns});
      events += loss.events;
    }
    base::MemoryOptions options;
    for (const model::GpuLossRow& loss : trace_.gpu_losses) {
      if (base::IsOfReader(trace_.strings[loss.reason])) continue;  // AddMissingGpuWork
      options.Add(trace_.strings[loss.reason], loss.device != kNone ? trace_.devices[loss.device].ordinal : kNone);
      lost_gpu.push_back({loss.begin_ns, loss.end_ns});
      records += loss.records;
    }
    const auto number = [](uint64_t count, const char* what) {
      return count == 0 ? std::string() : " (" + base::Plural(count, what) + ")";
    };
    if (const double share = ShareOf(lost); share >= kLeastLost)
      Add("a39.lost_events", kAll,
          "threads lost events in " + Percent(share) + " of the window" + number(events, "event"),
          "Use larger rings (Options::memory_budget_bytes), a shorter window or fewer scopes.", "lost / window", share,
          "", kReadsEvents, share, lost[0]);
    if (const double share = ShareOf(lost_gpu); share >= kLeastLost)
      Add("a39.lost_gpu_records", kAll,
          "GPU records were lost in " + Percent(share) + " of the window" + number(records, "record"),
          AdviceOn(options), "lost / window", share, "", kReadsGpu | kReadsCalls | kReadsLaunches, share, lost_gpu[0]);
  }

  void InspectGpuRows() {
    uint64_t rows = 0, unmatched = 0, instant = 0;
    uint32_t first_unmatched = kNone, first_instant = kNone;
    for (uint32_t row = 0; row < trace_.gpu.size(); ++row) {
      if (trace_.gpu.kind[row] == model::GpuKind::kSpan) continue;
      ++rows;
      if (trace_.gpu.call[row] == kNone && ++unmatched == 1) first_unmatched = row;
      if (trace_.gpu.duration_ns[row] == 0 && ++instant == 1) first_instant = row;
    }
    if (rows == 0) return;
    const double unmatched_share = static_cast<double>(unmatched) / static_cast<double>(rows);
    const double instant_share = static_cast<double>(instant) / static_cast<double>(rows);
    const auto at = [&](uint32_t row) {
      return Interval{trace_.gpu.begin_ns[row], trace_.gpu.begin_ns[row] + trace_.gpu.duration_ns[row]};
    };
    if (unmatched_share > limits_.unmatched_share)
      Add("a39.unmatched", kAll,
          Percent(unmatched_share) + " of GPU work has no call: its owner and launch time are not known",
          HasCallsOfItsTool()
              ? "Use a longer window or depth kernels: the calls were before the window, or launched graphs."
              : "The file has no calls: its tool did not record them, and causes before a launch stay unknown.",
          "rows without call / rows", unmatched_share, "unmatched_share", kReadsLaunches, unmatched_share,
          at(first_unmatched));
    if (instant_share > limits_.instant_share)
      Add("a39.instant", kAll, Percent(instant_share) + " of GPU work has no duration: GPU times are too small",
          "They are shorter than the trace can show (older PyTorch writes whole microseconds), or their ends were "
          "lost.",
          "rows without duration / rows", instant_share, "instant_share", kReadsGpu, instant_share, at(first_instant));
    if (instant_share > limits_.instant_share && !AreWholeMicroseconds())
      damages_.back().set_aside = static_cast<double>(instant);
  }

  // Other tools' formats may have none (read/read_trace.cc notes what a format lacks).
  bool HasCallsOfItsTool() const { return trace_.calls.size() != 0 || trace_.AttributeOf("not_recorded").empty(); }

  // Work of less than one has no duration then. Otherwise it lost its end.
  bool AreWholeMicroseconds() const {
    constexpr int64_t kMicrosecond = 1000;
    return std::all_of(trace_.gpu.duration_ns.begin(), trace_.gpu.duration_ns.end(),
                       [](int64_t ns) { return ns % kMicrosecond == 0; });
  }

  void InspectClocks() {
    for (const uint32_t device : DevicesAtWork(trace_)) {
      const model::LaunchLag lag = LagOf(trace_, device, limits_);
      if (lag.rows == 0) continue;
      const double early = static_cast<double>(lag.early) / static_cast<double>(lag.rows);
      if (IsEarly(lag, limits_))
        Add("a39.clock_skew", GpuName(trace_, device),
            "its timestamps are early by " + base::Duration(-lag.smallest_ns) + " or more: " + Percent(early) +
                " of its work began before its launch",
            "The offset between its clock and the host's is not known; see docs/guide/kernels.md on clocks.",
            "largest lead over a call", static_cast<double>(-lag.smallest_ns), "skew", kReadsLaunches, 0.5, Window());
      if (IsLate(lag, limits_))
        Add("a39.clock_late", GpuName(trace_, device),
            "none of its work began sooner than " + base::Duration(lag.smallest_ns) +
                " after its launch, though it had nothing else to do: its timestamps may be late by as much",
            "The offset between its clock and the host's is not known; see docs/guide/kernels.md on clocks.",
            "least launch latency", static_cast<double>(lag.smallest_ns), "late", kReadsLaunches, 0.5, Window());
    }
  }

  void InspectOverheads() {
    std::vector<Interval> own, profiles;
    for (const model::OverheadRow& row : trace_.overheads) {
      const std::string_view name = trace_.strings[row.name];
      if (IsCompiling(name) || IsLoading(name) || IsQueueing(name)) continue;
      (IsProfiling(name) ? profiles : own).push_back({row.begin_ns, row.begin_ns + row.duration_ns});
    }
    const auto add = [this](const char* code, const std::vector<Interval>& parts, const char* caveat,
                            const char* advice) {
      const double share = ShareOf(parts);
      if (share > limits_.overhead_share)
        Add(code, kAll, caveat + Percent(share) + " of the window", advice, "overhead / window", share,
            "overhead_share", kReadsEvents | kReadsCalls | kReadsLaunches, share, parts[0]);
    };
    add("a39.overhead", own, "the profiling library itself was at work in ",
        "Leave out the time of its start, or record at a shallower depth.");
    add("a39.profiled", profiles, "kernels were being profiled, and launches took longer, in ",
        "Look at requests outside of that time.");
  }

  void InspectRequests() {
    uint64_t endless = 0;
    for (const model::RequestRow& request : trace_.requests)
      endless += !request.end_known && request.duration_ns != model::kOpen;
    if (trace_.requests.empty()) return;
    const double share = static_cast<double>(endless) / static_cast<double>(trace_.requests.size());
    if (share > limits_.endless_share)
      Add("a39.endless", kAll,
          "the ends of " + Percent(share) + " of the requests were lost: the slow ones may be among them",
          "Use larger rings (Options::memory_budget_bytes) or a shorter window.", "requests without end / requests",
          share, "endless_share", kReadsRequests, share, Window());
  }

  const Trace& trace_;
  const QualityLimits& limits_;
  std::vector<Damage> damages_;
};

}  // namespace

bool AreGpuTimesKnown(const Trace& trace, const QualityLimits& limits) {
  const std::vector<uint32_t> devices = DevicesAtWork(trace);
  return std::none_of(devices.begin(), devices.end(), [&](uint32_t device) {
    const model::LaunchLag lag = LagOf(trace, device, limits);
    return IsEarly(lag, limits) || IsLate(lag, limits);
  });
}

std::vector<Damage> FindDamages(const Trace& trace, const QualityLimits& limits) {
  return Inspector(trace, limits).Inspect();
}

}  // namespace pitot::facts
