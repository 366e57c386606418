// SPDX-License-Identifier: Apache-2.0
//
// A35: was there a lasting change? Page and Hinkley's test (Page, "Continuous inspection schemes", 1954), as it could
// run next to a server. Excess over the usual beyond a small tolerance adds up, and shrinks again when there is none.
// Values far out count for three sigmas: one spike is not a change.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/catalogue/serving.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/statistics.h"
#include "base/quantile.h"
#include "pitot/model/classes.h"
#include "pitot/model/index.h"

namespace pitot::catalogue {
namespace a35 {
namespace {

using facts::AddNumber;
using facts::Conclude;
using facts::EachOf;
using facts::Inflation;
using facts::InfoOf;
using facts::Judged;
using facts::MannWhitney;
using model::kNone;
using model::Trace;

constexpr Threshold kThresholds[] = {
    {"least_requests", 60, "1", "pitot"},
    {"delta", 0.5, "1", "pitot"},         // sigmas that are not a change
    {"lambda", 20, "1", "pitot"},         // sigmas, added up, that are one
    {"least_change", 0.1, "1", "pitot"},  // of the median before
    {"p", 0.01, "1", "pitot"},            // Mann and Whitney's, of before and after
};

constexpr double kLogisticSigma = 0.5513288954217920;  // sqrt(3) / pi: log odds of ranks have this variance's root
constexpr size_t kLeastAfter = 10;

// The first value after a rise; 0: there is none. Values count by their ranks among the first ones, so that neither
// tails nor units matter: by the log odds of the rank, of variance 1.
size_t FindRise(const std::vector<double>& values, double delta, double lambda) {
  const size_t reference = std::clamp<size_t>(values.size() / 4, 30, 200);
  if (values.size() < reference + kLeastAfter) return 0;
  std::vector<double> usual(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(reference));
  std::sort(usual.begin(), usual.end());
  double risen = 0;
  size_t since = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto [low, high] = std::equal_range(usual.begin(), usual.end(), values[i]);
    const double below = static_cast<double>((low - usual.begin()) + (high - usual.begin())) / 2 + 0.5;
    const double sigmas = kLogisticSigma * std::log(below / (static_cast<double>(reference) + 1 - below));
    if (risen == 0) since = i;
    risen = std::max(0.0, risen + sigmas - delta);
    if (risen > lambda) return since;
  }
  return 0;
}

struct Series {
  const char* code;
  const char* name;
  const char* unit;
  const char* advice;
  std::vector<uint32_t> requests;  // by end
  std::vector<double> values;      // of each
  std::vector<double> whole;       // the same with whole batches, which must have grown as much; or none
};

class ChangePoints final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a35", "lasting changes", kThresholds); }

  Status Run(Analysis& analysis) override {
    const Trace& trace = analysis.trace();
    std::map<std::string, std::vector<uint32_t>> routes;
    for (const uint32_t request : WholeRequests(trace))
      routes[RouteName(trace, trace.requests[request].route)].push_back(request);
    const double least = analysis.threshold("least_requests").value;
    const bool has_any = std::any_of(routes.begin(), routes.end(), [&](const auto& route) {
      return static_cast<double>(route.second.size()) >= least;
    });
    if (!has_any) return Status();
    const KnownGpuTime gpu_time(trace);
    const std::vector<double> whole_gpu = WholeGpuTimes(analysis, gpu_time.time);
    const std::vector<double> allocations = AllocationsOf(analysis, Batches::kShares);
    const std::vector<double> whole_allocations = AllocationsOf(analysis, Batches::kWhole);
    for (auto& [route, requests] : routes) {
      if (static_cast<double>(requests.size()) < least) continue;
      if (analysis.IsOver()) return Status();
      // By their ends, as a server sees them.
      std::stable_sort(requests.begin(), requests.end(), [&](uint32_t a, uint32_t b) {
        return trace.RequestEnd(trace.requests[a]) < trace.RequestEnd(trace.requests[b]);
      });
      Series latency = {
          "a35.latency", "latency", "ns", "Compare traces from before and after (`pitot diff`) to see other changes.",
          requests,      {},        {}};
      Series gpu = {
          "a35.gpu_time",
          "GPU time",
          "ns",
          "Look for other kernels, a lower clock or larger inputs: `pitot diff` compares traces from before and after.",
          gpu_time.Of(requests),
          {},
          {}};
      Series allocation = {"a35.allocations",
                           "allocations",
                           "1",
                           "A pool ran full, or inputs had new shapes: allocate before the first request.",
                           requests,
                           {},
                           {}};
      for (const uint32_t request : requests) {
        latency.values.push_back(static_cast<double>(trace.requests[request].duration_ns));
        allocation.values.push_back(allocations[request]);
        allocation.whole.push_back(whole_allocations[request]);
      }
      for (const uint32_t request : gpu.requests) {
        gpu.values.push_back(static_cast<double>(gpu_time.time.Request(request)));
        gpu.whole.push_back(whole_gpu[request]);
      }
      for (const Series* series : {&latency, &gpu, &allocation}) Judge(analysis, route, *series);
    }
    return Status();
  }

 private:
  // For each request, its batches' whole GPU time instead of its shares: members of smaller batches have larger shares.
  static std::vector<double> WholeGpuTimes(Analysis& analysis, const model::GpuTime& gpu_time) {
    const Trace& trace = analysis.trace();
    std::vector<double> whole;
    for (const uint32_t request : EachOf(analysis, trace.requests.size()))
      whole.push_back(static_cast<double>(gpu_time.Request(request)));
    for (const uint32_t batch : EachOf(analysis, trace.batches.size())) {
      for (const model::GpuTime::Share& share : gpu_time.Shares(batch))
        whole[share.request] += static_cast<double>(gpu_time.Batch(batch) - share.ns);
    }
    return whole;
  }

  // For each request, with its shares of its batches or with whole batches.
  enum class Batches : uint8_t { kShares, kWhole };
  static std::vector<double> AllocationsOf(Analysis& analysis, Batches batches) {
    const Trace& trace = analysis.trace();
    std::vector<double> of(trace.requests.size());
    for (const uint32_t call : EachOf(analysis, trace.calls.size())) {
      if (!model::IsAllocation(trace.strings[trace.calls.name[call]])) continue;
      const uint32_t batch = trace.calls.batch[call], request = trace.calls.request[call];
      if (batch == kNone) {
        if (request != kNone) ++of[request];
        continue;
      }
      const model::BatchRow& row = trace.batches[batch];
      for (uint32_t m = row.first_member; m < row.first_member + row.member_count; ++m) {
        const double part = batches == Batches::kShares ? 1.0 / row.member_count : 1;
        if (trace.members[m].request != kNone) of[trace.members[m].request] += part;
      }
    }
    return of;
  }

  static void Judge(Analysis& analysis, const std::string& route, const Series& series) {
    if (static_cast<double>(series.values.size()) < analysis.threshold("least_requests").value) return;
    const size_t since = FindRise(series.values, analysis.threshold("delta").value, analysis.threshold("lambda").value);
    if (since == 0 || series.values.size() - since < kLeastAfter) return;
    const auto at = series.values.begin() + static_cast<std::ptrdiff_t>(since);
    const std::vector<double> before(series.values.begin(), at), after(at, series.values.end());
    const double was = base::Median(before), is = base::Median(after), change = was > 0 ? is / was - 1 : INFINITY;
    const Threshold least = analysis.threshold("least_change");
    const double p = MannWhitney(before, after, std::max(Inflation(before), Inflation(after)));
    if (is <= was || change < least.value || p > analysis.threshold("p").value) return;
    if (!series.whole.empty()) {
      const auto at_whole = series.whole.begin() + static_cast<std::ptrdiff_t>(since);
      const double whole_was = base::Median(std::vector<double>(series.whole.begin(), at_whole));
      if (base::Median(std::vector<double>(at_whole, series.whole.end())) < (1 + least.value) * whole_was) return;
    }
    AddNumber(analysis, (std::string(series.name) + " before").c_str(), route, was, series.unit);
    AddNumber(analysis, (std::string(series.name) + " after").c_str(), route, is, series.unit);
    const Trace& trace = analysis.trace();
    const int64_t at_ns = trace.RequestEnd(trace.requests[series.requests[since]]);
    const auto text = [&](double value) {
      return series.unit[0] == 'n' ? base::Duration(std::llround(value)) : base::Format("%.4g", value);
    };
    const std::string summary = std::string("the median ") + series.name + " of a request rose from " + text(was) +
                                " to " + text(is) + " " + base::Duration(at_ns - trace.window_begin_ns) +
                                " into the window, and stayed there";
    const bool is_time = series.unit[0] == 'n';
    Conclude(analysis,
             was > 0 ? Judged(series.code, route.c_str(), "growth of the median", change, least)
                     : Judged(series.code, route.c_str(), "median, of none before", is,
                              Threshold{"none", 0, series.unit, "pitot"}),
             {.severity = change >= 0.5 ? Severity::kHigh : Severity::kMedium,
              .confidence = 1 - p,
              .cost_ns = is_time ? std::llround((is - was) * static_cast<double>(after.size())) : 0,
              .summary = summary,
              .recommendation = series.advice},
             RequestEvidence(trace, series.requests[since], "the first after the change"));
  }
};

}  // namespace
}  // namespace a35

std::unique_ptr<Analyzer> MakeChangePoints() { return std::make_unique<a35::ChangePoints>(); }

}  // namespace pitot::catalogue
