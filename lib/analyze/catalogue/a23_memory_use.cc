// SPDX-License-Identifier: Apache-2.0
//
// A23: does memory run out, and why? Uses the memory given out by allocators and devices over time (counters) and the
// instants of PyTorch's allocator when there was no more. Also tells whether the memory left behind by requests grows.
// The tensors themselves are not recorded.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/facts/arguments.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/gpu_counters.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/subjects.h"
#include "analyze/facts/trend.h"
#include "pitot/model/index.h"

namespace pitot::catalogue {
namespace a23 {
namespace {

using facts::AddNumber;
using facts::Argument;
using facts::Conclude;
using facts::EachOf;
using facts::FindTrend;
using facts::GpuCountersOf;
using facts::GpuName;
using facts::InfoOf;
using facts::Judged;
using facts::Longest;
using facts::SeverityOf;
using facts::Trend;
using model::kNone;
using model::Trace;

constexpr Threshold kThresholds[] = {
    {"peak_share", 0.9, "1", "torch-tb-profiler"},
    {"leak_p", 0.01, "1", "pitot"},
    {"leak_growth", 0.01, "1", "pitot"},  // of the level, by 100 requests
    {"leak_requests", 20, "1", "pitot"},
};

constexpr size_t kMostPoints = 128;
constexpr std::string_view kOutOfMemory = "out of GPU memory";

std::string BytesText(double bytes) { return base::Bytes(static_cast<uint64_t>(std::clamp(bytes, 0.0, 9e18))); }

class MemoryUse final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a23", "memory: peaks, leaks, exhaustion", kThresholds); }

  Status Run(Analysis& analysis) override {
    const Trace& trace = analysis.trace();
    const model::CounterIndex counters(trace);
    for (uint32_t row = 0; row < trace.counters.size(); ++row) {
      const std::string_view name = trace.strings[trace.counters[row].name];
      if (trace.strings[trace.counters[row].unit] != "bytes") continue;
      if (!name.ends_with("allocated") && !name.ends_with("reserved") &&
          !name.ends_with(base::NameOf(base::GpuCounter::kMemoryUsed)))
        continue;
      const std::optional<double> most = counters.Most(row, trace.window_begin_ns, trace.window_end_ns);
      if (most) AddNumber(analysis, "most", SubjectOf(trace, row), *most, "bytes");
      if (name.ends_with("allocated")) Leak(analysis, counters, row);
      if (analysis.IsOver()) return Status();
    }
    Peaks(analysis, counters);
    OutOfMemory(analysis);
    return Status();
  }

 private:
  // Each GPU has an allocator of this name: "GPU 1: LibTorch allocated".
  static std::string SubjectOf(const Trace& trace, uint32_t counter) {
    const model::CounterRow& row = trace.counters[counter];
    const std::string name(trace.strings[row.name]);
    return row.device == kNone ? name : GpuName(trace, row.device) + ": " + name;
  }

  // The part of a joined trace whose memory it is; kNone: of several, or the trace is not joined.
  static uint32_t PartOf(const Trace& trace, const model::Parts& parts, uint32_t counter) {
    const model::CounterRow& row = trace.counters[counter];
    const uint32_t part = parts.Split(trace.strings[row.name]).part;
    if (part != kNone || row.device == kNone) return part;
    return parts.Split(trace.strings[trace.devices[row.device].name]).part;
  }

  // The memory given out as requests end, the least of every few that end together. Memory a request needs for itself
  // is gone at one of these ends; memory it leaves behind is not.
  static void Leak(Analysis& analysis, const model::CounterIndex& counters, uint32_t counter) {
    const Trace& trace = analysis.trace();
    const model::Parts parts(trace);
    const uint32_t of = PartOf(trace, parts, counter);
    const std::vector<uint32_t> of_threads = parts.OfThreads();
    std::vector<int64_t> ends;
    for (const model::RequestRow& request : trace.requests) {
      const uint32_t thread = request.begin_thread != kNone ? request.begin_thread : request.end_thread;
      if (of != kNone && thread != kNone && of_threads[thread] != of) continue;  // another process's
      if (request.end_known && request.begin_ns + request.duration_ns <= trace.window_end_ns)
        ends.push_back(request.begin_ns + request.duration_ns);
    }
    std::sort(ends.begin(), ends.end());
    const size_t group = ends.size() / kMostPoints + 1;
    std::vector<double> live;
    for (size_t first = 0; first < ends.size(); first += group) {
      std::optional<double> least;
      for (size_t i = first; i < std::min(ends.size(), first + group); ++i) {
        const std::optional<double> value = counters.At(counter, ends[i]);
        if (value && (!least || *value < *least)) least = value;
      }
      if (least) live.push_back(*least);
    }
    const Threshold requests = analysis.threshold("leak_requests");
    if (static_cast<double>(live.size() * group) < requests.value) return;
    const Trend trend = FindTrend(live);
    const double a_request = trend.slope / static_cast<double>(group);
    const std::string subject = SubjectOf(trace, counter);
    AddNumber(analysis, "growth_a_request", subject, a_request, "bytes");
    const Threshold most = analysis.threshold("leak_growth");
    const double growth = trend.level <= 0 ? 0 : 100 * a_request / trend.level;
    if (growth <= most.value || trend.p >= analysis.threshold("leak_p").value) return;
    const std::string summary = "memory left after requests grows by " + BytesText(a_request) + " a request (p " +
                                base::Format("%.2g", trend.p) + ", " + base::Plural(ends.size(), "request") + "), of " +
                                BytesText(trend.level) + "; its owner is not recorded";
    Evidence window;
    window.begin_ns = ends.front();
    window.end_ns = ends.back();
    window.note = "from the first request's end to the last one's";
    Conclude(analysis, Judged("a23.leak", subject.c_str(), "growth by 100 requests / level", growth, most),
             {.severity = SeverityOf(growth, 5 * most.value),
              .confidence = 0.9 * (1 - trend.p),
              .summary = summary,
              .recommendation = "Look for leftovers of requests: unbounded caches, tensors kept for autograd, lists of "
                                "results."},
             window);
  }

  static void Peaks(Analysis& analysis, const model::CounterIndex& counters) {
    const Trace& trace = analysis.trace();
    const Threshold most = analysis.threshold("peak_share");
    for (const auto& [key, gpu] : GpuCountersOf(trace)) {
      const uint32_t used = gpu.Find(base::GpuCounter::kMemoryUsed), total = gpu.Find(base::GpuCounter::kMemoryTotal);
      if (used == kNone || total == kNone) continue;
      const std::optional<double> peak = counters.Most(used, trace.window_begin_ns, trace.window_end_ns);
      const std::optional<double> room = counters.Most(total, trace.window_begin_ns, trace.window_end_ns);
      if (!peak || !room || *room <= 0) continue;
      const double share = *peak / *room;
      if (share <= most.value) continue;
      Longest longest(EvidenceTable::kWindow, "peak use from here");
      for (const uint32_t row : EachOf(analysis, trace.samples.size())) {
        if (trace.samples.counter[row] == used && trace.samples.value[row] == *peak)
          longest.Show(0, {trace.samples.at_ns[row], trace.samples.at_ns[row]});
      }
      const std::string subject(gpu.name);
      const std::string summary = BytesText(*peak) + " of " + BytesText(*room) + " were in use at most";
      Conclude(analysis, Judged("a23.peak", subject.c_str(), "most in use / all", share, most),
               {.severity = share >= 0.97 ? Severity::kMedium : Severity::kLow,
                .confidence = 0.95,
                .summary = summary,
                .recommendation = "A caching allocator fills the device over time: compare with the memory in use "
                                  "(\"allocated\"). If that is close, use smaller batches."},
               longest);
    }
  }

  // Memory that PyTorch's allocator refused, on one device, for one reason. There is one allocator for each device.
  struct Refusals {
    std::vector<uint32_t> events;  // by time
    uint32_t largest = kNone;
  };
  // Repeated failures ask for much the same again: one finding for all.
  static void OutOfMemory(Analysis& analysis) {
    const Trace& trace = analysis.trace();
    const Argument bytes(trace, "bytes"), free_bytes(trace, "free_bytes"), reserved(trace, "reserved"),
        allocated(trace, "allocated"), device(trace, "device");
    const auto room = [&](uint32_t event) {
      return reserved.Number(event) - allocated.Number(event) + free_bytes.Number(event);
    };
    std::map<std::pair<double, bool>, Refusals> all;  // by device, and whether it would fit in one piece
    for (const uint32_t event : EachOf(analysis, trace.events.size())) {
      if (trace.sites[trace.events.site[event]].kind != SiteKind::kInstant || trace.EventName(event) != kOutOfMemory)
        continue;
      const double wanted = bytes.Number(event);
      Refusals& refusals = all[{device.Number(event), wanted > 0 && room(event) >= wanted}];
      refusals.events.push_back(event);
      if (refusals.largest == kNone || wanted > bytes.Number(refusals.largest)) refusals.largest = event;
    }
    for (auto& [of, refusals] : all) {
      const auto [number, would_fit] = of;
      const uint32_t largest = refusals.largest;
      std::stable_sort(refusals.events.begin(), refusals.events.end(),
                       [&](uint32_t a, uint32_t b) { return trace.events.begin_ns[a] < trace.events.begin_ns[b]; });
      const bool is_one = refusals.events.size() == 1;
      const std::string failed =
          (is_one ? "an allocation of " : "allocations of at most ") + BytesText(bytes.Number(largest));
      const std::string often = is_one ? "" : base::Count(refusals.events.size()) + " times, first ";
      const std::string summary =
          failed + " failed " + often +
          base::Duration(trace.events.begin_ns[refusals.events[0]] - trace.window_begin_ns) +
          " into the window: " + BytesText(allocated.Number(largest)) + " were in use, " +
          BytesText(reserved.Number(largest) - allocated.Number(largest)) + " cached in pieces, " +
          BytesText(free_bytes.Number(largest)) + " free; " +
          (would_fit ? "it would fit if these were in one piece" : "it would not fit even in one piece");
      const std::string subject = "GPU " + base::Number(number);
      Conclude(
          analysis,
          Judged(would_fit ? "a23.fragmentation" : "a23.out_of_memory", subject.c_str(), "wanted / (cached + free)",
                 room(largest) <= 0 ? bytes.Number(largest) : bytes.Number(largest) / room(largest),
                 {"", 1, "1", "pitot"}),
          {.severity = Severity::kHigh,
           .confidence = 0.95,
           .summary = summary,
           .recommendation =
               would_fit ? "Set expandable_segments:True in PyTorch's allocator, or use similar sizes (padded shapes)."
                         : "Use smaller batches or shorter inputs, or refuse work too large for the memory (see also "
                           "a23.leak)."},
          EvidenceOf(trace, refusals));
    }
  }
  // The first, and the largest if it is another.
  static std::vector<Evidence> EvidenceOf(const Trace& trace, const Refusals& refusals) {
    std::vector<Evidence> evidence;
    for (const uint32_t event : {refusals.events[0], refusals.largest}) {
      const int64_t at_ns = trace.events.begin_ns[event];
      if (evidence.empty() || event != refusals.events[0])
        evidence.push_back({EvidenceTable::kEvents, event, 1, at_ns, at_ns,
                            evidence.empty() ? "the first failed allocation" : "the largest failed allocation"});
    }
    return evidence;
  }
};

}  // namespace
}  // namespace a23

std::unique_ptr<Analyzer> MakeMemoryUse() { return std::make_unique<a23::MemoryUse>(); }

}  // namespace pitot::catalogue
