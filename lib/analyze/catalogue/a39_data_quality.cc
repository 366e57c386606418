// SPDX-License-Identifier: Apache-2.0
//
// A39: what is wrong with the trace itself? Findings of other analyzers that rest on a damaged part carry this as a
// caveat and are less sure (pitot/analyze/analyze.h).
#include <string>

#include "analyze/catalogue/catalogue.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/quality.h"
#include "analyze/facts/subjects.h"

namespace pitot::catalogue {
namespace a39 {
namespace {

using facts::Conclude;
using facts::Damage;
using facts::FindDamages;
using facts::InfoOf;
using facts::Judged;
using facts::QualityLimits;

constexpr QualityLimits kDefault;
constexpr Threshold kThresholds[] = {
    {"unmatched_share", kDefault.unmatched_share, "1", "pitot"},
    {"instant_share", kDefault.instant_share, "1", "pitot"},
    {"skew", static_cast<double>(kDefault.skew_ns), "ns", "pitot"},
    {"late", static_cast<double>(kDefault.late_ns), "ns", "pitot"},
    {"least_launches", static_cast<double>(kDefault.least_launches), "1", "pitot"},
    {"overhead_share", kDefault.overhead_share, "1", "pitot"},
    {"endless_share", kDefault.endless_share, "1", "pitot"},
};

class DataQuality final : public Analyzer {
 public:
  // Its own answers rest on nothing that may be damaged.
  AnalyzerInfo Info() const noexcept override { return InfoOf("a39", "quality of the trace", kThresholds, 0); }

  Status Run(Analysis& analysis) override {
    const auto value = [&](const char* name) { return analysis.threshold(name).value; };
    QualityLimits limits;
    limits.unmatched_share = value("unmatched_share");
    limits.instant_share = value("instant_share");
    limits.skew_ns = static_cast<int64_t>(value("skew"));
    limits.late_ns = static_cast<int64_t>(value("late"));
    limits.least_launches = static_cast<uint32_t>(value("least_launches"));
    limits.overhead_share = value("overhead_share");
    limits.endless_share = value("endless_share");
    if (analysis.IsOver()) return Status();
    for (const Damage& damage : FindDamages(analysis.trace(), limits)) {
      const bool has_limit = *damage.limit != 0;
      const Evidence evidence = {EvidenceTable::kWindow, 0, 0, damage.where.begin_ns, damage.where.end_ns, "the first"};
      Conclude(analysis,
               Judged(damage.code, damage.subject.c_str(), damage.metric, damage.value,
                      has_limit ? analysis.threshold(damage.limit) : Threshold{"none", 0, "1", "pitot"}),
               {.severity = damage.multiplier <= 0.7   ? Severity::kHigh
                            : damage.multiplier <= 0.9 ? Severity::kMedium
                                                       : Severity::kLow,
                .confidence = 1,
                .summary = damage.caveat,
                .recommendation = damage.advice},
               evidence);
    }
    return Status();
  }
};

}  // namespace
}  // namespace a39

std::unique_ptr<Analyzer> MakeDataQuality() { return std::make_unique<a39::DataQuality>(); }

}  // namespace pitot::catalogue
