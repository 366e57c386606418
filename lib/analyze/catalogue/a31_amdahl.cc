// SPDX-License-Identifier: Apache-2.0
//
// A31: how much faster can requests become if one part of them does? At most 1 / (1 - p) times (Amdahl), by the part's
// share p of the chain that the latency is made of. A share of CPU time would not do: work next to the chain saves
// nothing.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/catalogue/serving.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/statistics.h"
#include "model/lacking.h"

namespace pitot::catalogue {
namespace a31 {
namespace {

using facts::Accumulate;
using facts::AddNumber;
using facts::Conclude;
using facts::Estimate;
using facts::Inflation;
using facts::InfoOf;
using facts::Judged;
using facts::Percent;

constexpr Threshold kThresholds[] = {
    {"least_requests", 20, "1", "pitot"},
    {"share", 0.5, "1", "pitot"},  // from which one part alone can halve the latency
    {"speedup", 2, "1", "pitot"},  // of the part, to show the worth of its share
};

// The part's share of the latency over all requests, and its 95 % interval. It is that of a ratio of means (Cochran,
// "Sampling techniques", 2.11), widened where neighbours are alike.
Estimate ShareOf(const std::vector<const RequestBlame*>& blames, uint32_t k) {
  double part = 0, whole = 0;
  for (const RequestBlame* blame : blames) {
    part += static_cast<double>(blame->blame.ns[k]);
    whole += static_cast<double>(blame->blame.Total());
  }
  if (whole <= 0) return {};
  const double p = part / whole, n = static_cast<double>(blames.size());
  std::vector<double> off;
  double squares = 0;
  for (const RequestBlame* blame : blames) {
    off.push_back(static_cast<double>(blame->blame.ns[k]) - p * static_cast<double>(blame->blame.Total()));
    squares += off.back() * off.back();
  }
  const double half = 1.96 * std::sqrt(squares / (n - 1) / n * Inflation(off)) / (whole / n);
  return {true, p, std::max(0.0, p - half), std::min(1.0, p + half)};
}

double Limit(double p, double speedup) { return 1 / std::max(1e-9, 1 - p + p / speedup); }
std::string Times(double factor) { return factor >= 1e6 ? "any" : base::Format("%.2f", factor); }

std::string WhereToBegin(Blame part) {
  constexpr uint32_t kCopies = BlameBit(Blame::kH2d) | BlameBit(Blame::kD2h) | BlameBit(Blame::kD2dMemset);
  const char* const begin =
      (BlameBit(part) & kCopies) != 0
          ? "To make all requests faster, begin here, and see first what the copies wait for: a blocking copy also "
            "waits for earlier work "
            "of its stream."
          : "To make all requests faster, slow or not, begin here: nothing else can gain as much.";
  return std::string(begin) + " These are upper bounds: the gain is smaller if another path is nearly as long.";
}

class Amdahl final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a31", "possible gain from one part", kThresholds); }

  Status Run(Analysis& analysis) override {
    const Walks* const walks = analysis.walks();
    if (walks == nullptr) return Status(StatusCode::kResourceExhausted, "no memory");
    const double least = std::max(2.0, analysis.threshold("least_requests").value);
    for (const auto& [route, blames] : WalksByRoute(analysis.trace(), *walks, least)) {
      if (analysis.IsOver()) break;
      Judge(analysis, route, blames);
    }
    return Status();
  }

 private:
  static void Judge(Analysis& analysis, const std::string& route, const std::vector<const RequestBlame*>& blames) {
    const double speedup = std::max(1.0, analysis.threshold("speedup").value);
    const Threshold least = analysis.threshold("share");
    for (uint32_t k = 0; k < kBlames; ++k) {
      const Estimate p = ShareOf(blames, k);
      if (!p.is_known || p.value <= 0.01) continue;
      const std::string name = BlameName(static_cast<Blame>(k));
      AddNumber(analysis, (name + " share").c_str(), route, p.value);
      AddNumber(analysis, (name + " share, low").c_str(), route, p.low);
      AddNumber(analysis, (name + " share, high").c_str(), route, p.high);
      AddNumber(analysis, (name + " limit").c_str(), route, Limit(p.value, 1e12));
      if (p.low < least.value) continue;  // sure of it
      // No thread is known: all of the time is unrecorded, and that says nothing.
      if (static_cast<Blame>(k) == Blame::kUntraced && model::IsLackingThreads(analysis.trace())) continue;
      int64_t saving_ns = 0;
      for (const RequestBlame* blame : blames) Accumulate(&saving_ns, blame->blame.ns[k]);
      const std::string summary =
          name + " is " + Percent(p.value) + " of the latency (" + Percent(p.low) + " to " + Percent(p.high) +
          " at 95 %): making it " + base::Format("%g", speedup) + " times as fast makes requests at most " +
          Times(Limit(p.value, speedup)) + " times as fast (" + Times(Limit(p.low, speedup)) + " to " +
          Times(Limit(p.high, speedup)) + "), removing it " + Times(Limit(p.value, 1e12)) + " times";
      const Evidence evidence = RequestEvidence(analysis.trace(), blames[blames.size() / 2]->request, "one of them");
      Conclude(analysis, Judged("a31.dominant", route.c_str(), (name + " / latency").c_str(), p.value, least),
               {.severity = Severity::kInfo,
                .confidence = 0.95,
                .cost_ns = saving_ns,
                .summary = summary,
                .recommendation = WhereToBegin(static_cast<Blame>(k))},
               evidence);
    }
  }
};

}  // namespace
}  // namespace a31

std::unique_ptr<Analyzer> MakeAmdahl() { return std::make_unique<a31::Amdahl>(); }

}  // namespace pitot::catalogue
