// SPDX-License-Identifier: Apache-2.0
//
// A24: do calls of the driver's allocator hold up work, and does memory go back and forth? After warm-up a pool serves
// everything. Calls that still reach the driver wait for its lock, and a free waits for the GPU.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/facts/arguments.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/host_work.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/subjects.h"
#include "analyze/facts/warm_up.h"
#include "pitot/model/indexes.h"

namespace pitot::catalogue {
namespace a24 {
namespace {

using facts::Add;
using facts::AddNumber;
using facts::Conclude;
using facts::DevicesAtWork;
using facts::EachOf;
using facts::InfoOf;
using facts::Judged;
using facts::kAll;
using facts::Longest;
using facts::SeverityOf;
using facts::Share;
using facts::WarmUpEnd;
using model::Interval;
using model::Intervals;
using model::Trace;

constexpr Threshold kThresholds[] = {
    {"warm_up", 3, "1", "pitot"},  // requests, or steps
    {"stall_share", 0.01, "1", "pitot"},
    {"stall", 10000000, "ns", "msprof"},
    {"thrash_pairs", 5, "1", "pitot"},
};

// A retry: PyTorch's caching allocator calls the driver again after freeing all cached memory.
constexpr std::string_view kRetry = "cudaMalloc after cached memory was freed";

bool IsFree(std::string_view call) { return call.find("Free") != std::string_view::npos; }

struct Calls {
  uint64_t allocations = 0, frees = 0, retries = 0;
  uint64_t pairs = 0;  // allocations by a thread that had freed as many times before
  std::vector<Interval> times;
  Longest longest{EvidenceTable::kCalls, "in the driver's allocator"};
  Longest retried{EvidenceTable::kEvents, "allocated only after cached memory was freed"};
};

class AllocatorStalls final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a24", "the driver's allocator", kThresholds); }

  Status Run(Analysis& analysis) override {
    const Trace& trace = analysis.trace();
    const auto units = static_cast<size_t>(std::clamp(analysis.threshold("warm_up").value, 0.0, 1e9));
    const std::optional<int64_t> warm_ns = WarmUpEnd(analysis, units);
    Calls calls = Find(analysis, warm_ns.value_or(trace.window_begin_ns));
    const Intervals times = Union(std::move(calls.times));
    const int64_t ns = TotalNs(times);
    // A free, and an allocation that finds no room, wait for the GPU's work.
    std::vector<Interval> working;
    for (const uint32_t device : DevicesAtWork(trace)) {
      const Intervals busy = DeviceBusy(trace, device);
      working.insert(working.end(), busy.begin(), busy.end());
    }
    const int64_t beside_ns = TotalNs(Intersection(times, Union(std::move(working))));
    if (trace.calls.size() == 0 && calls.retries == 0) return Status();
    AddNumber(analysis, "allocations", kAll, static_cast<double>(calls.allocations));
    AddNumber(analysis, "frees", kAll, static_cast<double>(calls.frees));
    AddNumber(analysis, "retries", kAll, static_cast<double>(calls.retries));
    Add(analysis, "in_allocator", kAll, ns);
    Add(analysis, "in_allocator_while_gpus_worked", kAll, beside_ns);
    Judge(analysis, calls, ns, warm_ns.has_value());
    return Status();
  }

 private:
  static Calls Find(Analysis& analysis, int64_t from_ns) {
    const Trace& trace = analysis.trace();
    Calls calls;
    enum class Kind : uint8_t { kUnseen, kOther, kAllocation, kFree };
    uint32_t thread = model::kNone;
    uint64_t freed = 0;
    std::vector<Kind> kinds(trace.strings.size(), Kind::kUnseen);
    for (const uint32_t call : EachOf(analysis, trace.calls.size())) {
      Kind& kind = kinds[trace.calls.name[call]];
      if (kind == Kind::kUnseen) {
        const std::string_view name = trace.strings[trace.calls.name[call]];
        kind = !model::IsAllocation(name) ? Kind::kOther : IsFree(name) ? Kind::kFree : Kind::kAllocation;
      }
      if (kind == Kind::kOther || trace.calls.begin_ns[call] < from_ns) continue;
      if (trace.calls.thread[call] != thread) thread = trace.calls.thread[call], freed = 0;
      if (kind == Kind::kFree) {
        ++calls.frees, ++freed;
      } else {
        ++calls.allocations;
        if (freed > 0) --freed, ++calls.pairs;
      }
      calls.times.push_back({trace.calls.begin_ns[call], trace.CallEnd(call)});
      calls.longest.Show(call, calls.times.back());
    }
    for (const uint32_t event : EachOf(analysis, trace.events.size())) {
      if (trace.sites[trace.events.site[event]].kind != SiteKind::kInstant || trace.events.begin_ns[event] < from_ns ||
          trace.EventName(event) != kRetry)
        continue;
      ++calls.retries;
      calls.retried.Show(event, {trace.events.begin_ns[event], trace.events.begin_ns[event]});
    }
    return calls;
  }

  static void Judge(Analysis& analysis, const Calls& calls, int64_t ns, bool knows_warm_up) {
    const Trace& trace = analysis.trace();
    const Threshold pairs = analysis.threshold("thrash_pairs"), most = analysis.threshold("stall_share");
    // If the warm-up is unknown, it may be that.
    const double confidence = knows_warm_up ? 0.9 : 0.5;
    const std::string in_all = base::Plural(calls.allocations, "allocation") + " and " +
                               base::Plural(calls.frees, "free") + " by the driver" +
                               (knows_warm_up ? " after warm-up" : "") + ", " + base::Duration(ns) + " in all";
    const auto back_and_forth = static_cast<double>(calls.pairs);
    const double share = Share(ns, trace.window_end_ns - trace.window_begin_ns);
    if (calls.retries > 0 || back_and_forth >= pairs.value) {
      const std::string summary =
          "device memory is freed and allocated again and again: " + in_all +
          (calls.retries > 0 ? "; the cache was emptied " + base::Plural(calls.retries, "time") + " to find room" : "");
      return Conclude(
          analysis, Judged("a24.alloc_thrash", kAll, "allocations after a free", back_and_forth, pairs),
          {.severity = calls.retries > 0 || share >= 5 * most.value ? Severity::kHigh : Severity::kMedium,
           .confidence = calls.retries > 0 ? 0.95 : confidence,
           .cost_ns = ns,
           .summary = summary,
           .recommendation =
               calls.retries > 0
                   ? "Use less at once (smaller batches), or make room (other processes on the GPU). Use "
                     "expandable segments if memory is fragmented (a23)."
                   : "Keep memory: do not call empty_cache() per request, and make buffers and pools once."},
          (calls.retries > 0 ? calls.retried : calls.longest));
    }
    const Threshold least = analysis.threshold("stall");
    if (share < most.value && static_cast<double>(ns) < least.value) return;
    Conclude(
        analysis,
        Judged("a24.alloc_stall", kAll, share < most.value ? "in the allocator" : "in the allocator / window",
               share < most.value ? static_cast<double>(ns) : share, share < most.value ? least : most),
        {.severity = SeverityOf(share, most.value),
         .confidence = confidence,
         .cost_ns = ns,
         .summary = in_all,
         .recommendation = "Allocate once, ahead of requests: from a pool, or in a warm-up with the largest shapes."},
        calls.longest);
  }
};

}  // namespace
}  // namespace a24

std::unique_ptr<Analyzer> MakeAllocatorStalls() { return std::make_unique<a24::AllocatorStalls>(); }

}  // namespace pitot::catalogue
