// SPDX-License-Identifier: Apache-2.0
//
// A25: what does the first time cost? A kernel's code is loaded at its first launch (lazy loading) and compiled if the
// binary has none for the device (JIT); graphs are captured and instantiated. It knows the driver's own records of
// loading and compiling (they say which), calls by name, and first launches much longer than later ones (which look
// like both). A window does not hold the process's past: a kernel that is first in it need not be new.
#include <string>
#include <vector>

#include "analyze/blame/first_use.h"
#include "analyze/catalogue/catalogue.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/host_work.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/subjects.h"
#include "base/call_class.h"
#include "model/kernel_name.h"
#include "pitot/model/indexes.h"

namespace pitot::catalogue {
namespace a25 {
namespace {

using facts::Add;
using facts::Conclude;
using facts::EachOf;
using facts::InfoOf;
using facts::IsCompiling;
using facts::IsLoading;
using facts::Judged;
using facts::kAll;
using facts::Longest;
using facts::SeverityOf;
using facts::Share;
using model::Interval;
using model::kNone;
using model::Trace;

constexpr Threshold kThresholds[] = {
    {"first_launch", 200000, "ns", "pitot"},
    {"share", 0.01, "1", "pitot"},
};

enum Kind : uint32_t { kJit, kLazyLoad, kGraph, kKinds };

Kind KindOfOverhead(std::string_view name) {
  if (IsCompiling(name)) return kJit;
  return IsLoading(name) ? kLazyLoad : kKinds;
}
Kind KindOfCall(std::string_view name) {
  switch (base::CallClassOf(name)) {
    case base::CallClass::kCompile:
      return kJit;
    case base::CallClass::kLoad:
      return kLazyLoad;
    case base::CallClass::kGraph:
      return kGraph;
    default:
      return kKinds;
  }
}

struct Found {
  uint64_t times = 0;
  std::vector<Interval> spent;
  Longest longest{EvidenceTable::kCalls, "the first time"};
  std::string longest_kernel;
  int64_t longest_ns = 0;
  bool is_recorded = false;  // by the driver, or a call says so
  bool is_of_driver = false;
};

class ColdStart final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a25", "cost of first use", kThresholds); }

  Status Run(Analysis& analysis) override {
    Found found[kKinds];
    Records(analysis, found);
    FirstLaunches(analysis, found);
    constexpr const char* kNames[kKinds] = {"compiling", "loading", "graphs"};
    for (uint32_t kind = 0; kind < kKinds; ++kind) {
      if (found[kind].times == 0) continue;
      const int64_t ns = TotalNs(Union(found[kind].spent));
      Add(analysis, kNames[kind], kAll, ns);
      Judge(analysis, static_cast<Kind>(kind), found[kind], ns);
    }
    return Status();
  }

 private:
  static void Records(Analysis& analysis, Found* found) {
    const Trace& trace = analysis.trace();
    for (const model::OverheadRow& row : trace.overheads) {
      const Kind kind = KindOfOverhead(trace.strings[row.name]);
      if (kind == kKinds) continue;
      See(kNone, {row.begin_ns, row.begin_ns + row.duration_ns}, &found[kind]);
      found[kind].is_of_driver = true;
    }
    std::vector<uint8_t> kinds(trace.strings.size(), UINT8_MAX);
    for (const uint32_t call : EachOf(analysis, trace.calls.size())) {
      uint8_t& kind = kinds[trace.calls.name[call]];
      if (kind == UINT8_MAX) kind = static_cast<uint8_t>(KindOfCall(trace.strings[trace.calls.name[call]]));
      if (kind != kKinds) See(call, {trace.calls.begin_ns[call], trace.CallEnd(call)}, &found[kind]);
    }
  }
  static void See(uint32_t call, Interval time, Found* found) {
    ++found->times;
    found->is_recorded = true;
    found->spent.push_back(time);
    if (call != kNone) found->longest.Show(call, time);
  }

  // First launches far above all later ones, for kernels launched often enough to tell.
  static void FirstLaunches(Analysis& analysis, Found* found) {
    const Trace& trace = analysis.trace();
    const model::Intervals recorded[] = {model::Union(found[kJit].spent), model::Union(found[kLazyLoad].spent)};
    for (const blame::FirstLaunch& first : blame::SlowFirstLaunches(trace, analysis.threshold("first_launch").value)) {
      const int64_t begin_ns = trace.calls.begin_ns[first.call];
      const model::Intervals call = {{begin_ns, trace.CallEnd(first.call)}};
      const bool is_jit = !model::Intersection(call, recorded[0]).empty();
      const bool is_told = is_jit || !model::Intersection(call, recorded[1]).empty();
      Found& of = found[is_jit ? kJit : kLazyLoad];
      of.times += is_told ? 0 : 1;
      of.spent.push_back({begin_ns, begin_ns + first.cost_ns});
      of.longest.Show(first.call, call[0]);
      if (first.cost_ns > of.longest_ns) {
        of.longest_ns = first.cost_ns;
        of.longest_kernel = model::ReadKernelName(trace.strings[first.kernel]).brief;
      }
    }
  }

  static void Judge(Analysis& analysis, Kind kind, const Found& found, int64_t ns) {
    const Trace& trace = analysis.trace();
    const Threshold least = analysis.threshold("share");
    const double share = Share(ns, trace.window_end_ns - trace.window_begin_ns);
    if (share < least.value) return;
    constexpr const char* kCodes[kKinds] = {"a25.jit", "a25.lazy_load", "a25.graph_capture"};
    constexpr const char* kWhat[kKinds] = {"the driver compiled kernels for the device", "code of kernels was loaded",
                                           "graphs were captured or instantiated"};
    constexpr const char* kAdvice[kKinds] = {
        "Ship machine code for this device (sm_xx in the fat binary), keep the compile cache, or compile at start-up.",
        "Launch each kernel once at start-up, with all shapes, or set CUDA_MODULE_LOADING=EAGER.",
        "Capture graphs at start-up, for few padded shapes: each new shape captures again."};
    std::string summary =
        std::string(kWhat[kind]) + " " + base::Plural(found.times, "time") + ", for " + base::Duration(ns);
    if (!found.longest_kernel.empty())
      summary += "; longest for " + found.longest_kernel + ", " + base::Duration(found.longest_ns);
    if (!found.is_recorded) summary += "; inferred from first launches alone: it may also have been compiling";
    Conclude(analysis, Judged(kCodes[kind], kAll, "time in it / window", share, least),
             {.severity = SeverityOf(share, 5 * least.value),
              .confidence = found.is_of_driver  ? 1
                            : found.is_recorded ? 0.95
                                                : 0.6,
              .cost_ns = ns,
              .summary = summary,
              .recommendation = kAdvice[kind]},
             found.longest);
  }
};

}  // namespace
}  // namespace a25

std::unique_ptr<Analyzer> MakeColdStart() { return std::make_unique<a25::ColdStart>(); }

}  // namespace pitot::catalogue
