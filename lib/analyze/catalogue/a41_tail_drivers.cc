// SPDX-License-Identifier: Apache-2.0
//
// A41: what makes slow requests slow, over all of a route? The variance of the latency is the sum of its parts'
// covariances with it (VProfiler's variance tree in one line). A part that varies with the latency drives it; a part
// that is merely large does not.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/catalogue/serving.h"
#include "analyze/facts/evidence.h"
#include "analyze/verdict/mechanism.h"
#include "base/quantile.h"
#include "pitot/analyze/verdict.h"

namespace pitot::catalogue {
namespace a41 {
namespace {

using facts::AddNumber;
using facts::Conclude;
using facts::InfoOf;
using facts::Judged;
using facts::Percent;

constexpr Threshold kThresholds[] = {
    {"least_requests", 60, "1", "pitot"},  // as a verdict needs to name anything
    {"tail_ratio", 1.5, "1", "pitot"},     // p99 / p50 from which there is a tail to explain
    {"share", 0.3, "1", "pitot"},          // of the variance
    {"main_share", 0.6, "1", "pitot"},     // likewise; less is more often a consequence than the reason
};

struct Driver {
  Blame blame;
  double share;
  int64_t tail_ns, typical_ns;  // means of the slowest twentieth and of the middle half
};

class TailDrivers final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a41", "causes of the tail latency", kThresholds); }

  Status Run(Analysis& analysis) override {
    const Walks* const walks = analysis.walks();
    if (walks == nullptr) return Status(StatusCode::kResourceExhausted, "no memory");
    const auto routes = WalksByRoute(analysis.trace(), *walks, analysis.threshold("least_requests").value);
    for (const auto& [route, blames] : routes) {
      if (analysis.IsOver()) break;
      Judge(analysis, route, blames);
    }
    return Status();
  }

 private:
  static void Judge(Analysis& analysis, const std::string& route, std::vector<const RequestBlame*> blames) {
    std::sort(blames.begin(), blames.end(),
              [](const RequestBlame* a, const RequestBlame* b) { return a->blame.Total() < b->blame.Total(); });
    const size_t n = blames.size();
    std::vector<double> latencies;
    for (const RequestBlame* blame : blames) latencies.push_back(static_cast<double>(blame->blame.Total()));
    const double p50 = base::Median(latencies), p99 = base::Quantile(std::move(latencies), 0.99);
    const double ratio = p99 / std::max(1.0, p50);
    AddNumber(analysis, "p99 / p50", route, ratio);
    const std::vector<Driver> drivers = Drivers(blames);
    for (const Driver& driver : drivers) AddNumber(analysis, BlameName(driver.blame), route, driver.share);
    const Threshold tail = analysis.threshold("tail_ratio"), least = analysis.threshold("share");
    if (ratio < tail.value) return;
    for (const Driver& driver : drivers) {
      if (driver.share < least.value || driver.tail_ns <= driver.typical_ns) continue;
      const int64_t excess_ns = driver.tail_ns - driver.typical_ns;
      std::vector<uint32_t> slowest;
      for (size_t i = 0; i < std::min(kMostNamed, n); ++i) slowest.push_back(blames[n - 1 - i]->request);
      const std::string summary =
          "one of the slowest 5 % of requests " + verdict::Mechanism({driver.blame, base::Duration(driver.tail_ns)}) +
          ", a typical one " + base::Duration(driver.typical_ns) + ": " + Percent(driver.share) +
          " of the spread in latency; the slowest: " + RequestNames(analysis.trace(), slowest);
      const Advice advice = AdviceFor(driver.blame, BatchClose::kUnknown);
      std::vector<Evidence> evidence;
      std::vector<std::string> notes;
      for (const uint32_t request : slowest)
        notes.push_back("one of the slowest: " + RequestNames(analysis.trace(), {request}));
      for (size_t i = 0; i < slowest.size(); ++i)
        evidence.push_back(RequestEvidence(analysis.trace(), slowest[i], notes[i].c_str()));
      const bool is_unknown = driver.blame == Blame::kUntraced;
      const std::string metric = std::string("Cov(") + BlameName(driver.blame) + ", latency) / Var(latency)";
      Conclude(analysis, Judged("a41.driver", route.c_str(), metric.c_str(), driver.share, least),
               {.severity = driver.share >= analysis.threshold("main_share").value ? Severity::kHigh : Severity::kInfo,
                .confidence = is_unknown ? 0.5 : 0.6,
                .is_undetermined = is_unknown,
                .cost_ns = excess_ns * static_cast<int64_t>(n / 20 + 1),
                .summary = summary,
                .recommendation =
                    std::string(advice.text) + " Run `pitot why FILE --request ID` on one of them for details."},
               evidence);
    }
  }

  // `blames` by latency. Shares add up to 1; the important ones, the largest first.
  static std::vector<Driver> Drivers(const std::vector<const RequestBlame*>& blames) {
    const size_t n = blames.size(), tail = n - n / 20 - 1, low = n / 4, high = 3 * n / 4;
    std::vector<Driver> drivers;
    double mean = 0, variance = 0;
    for (const RequestBlame* blame : blames) mean += static_cast<double>(blame->blame.Total()) / static_cast<double>(n);
    for (const RequestBlame* blame : blames) {
      const double off = static_cast<double>(blame->blame.Total()) - mean;
      variance += off * off;
    }
    if (variance <= 0) return drivers;
    for (uint32_t k = 0; k < kBlames; ++k) {
      double together = 0, tail_ns = 0, typical_ns = 0;
      for (size_t i = 0; i < n; ++i) {
        const auto part = static_cast<double>(blames[i]->blame.ns[k]);
        together += part * (static_cast<double>(blames[i]->blame.Total()) - mean);
        if (i >= tail) tail_ns += part / static_cast<double>(n - tail);
        if (i >= low && i < high) typical_ns += part / static_cast<double>(high - low);
      }
      if (together != 0)
        drivers.push_back(
            {static_cast<Blame>(k), together / variance, std::llround(tail_ns), std::llround(typical_ns)});
    }
    std::sort(drivers.begin(), drivers.end(), [](const Driver& a, const Driver& b) { return a.share > b.share; });
    return drivers;
  }
};

}  // namespace
}  // namespace a41

std::unique_ptr<Analyzer> MakeTailDrivers() { return std::make_unique<a41::TailDrivers>(); }

}  // namespace pitot::catalogue
