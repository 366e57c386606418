// SPDX-License-Identifier: Apache-2.0
//
// The step times and the GPU summary of TensorBoard's plug-in.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "analyze/catalogue/a03_utilisation.h"
#include "analyze/facts/subjects.h"
#include "peers/catalogue.h"
#include "peers/instead.h"
#include "peers/peers.h"
#include "pitot/model/sweep.h"

namespace pitot::peers {
namespace {

using facts::AddNumber;
using facts::kAll;
using facts::Share;
using model::Interval;
using model::Intervals;
using model::Trace;

// A01.
void TileAsTbPlugin(Analysis& analysis) {
  const Trace& trace = analysis.trace();
  const Intervals steps = TbSteps(trace, analysis.indexes().launches);
  const std::vector<Intervals> roles = TbRoles(trace, analysis.indexes().sets);
  std::vector<const Intervals*> classes;
  for (const Intervals& role : roles) classes.push_back(&role);
  std::vector<int64_t> totals(kTbRoles + 1);
  int64_t steps_ns = 0;
  for (const Interval& step : steps) {
    const std::vector<int64_t> of_step = TotalsByPriority(classes, step);
    for (size_t k = 0; k < totals.size(); ++k) totals[k] += of_step[k];
    steps_ns += step.end_ns - step.begin_ns;
  }
  const auto count = static_cast<double>(steps.size());
  AddNumber(analysis, "steps", kAll, count);
  AddNumber(analysis, "step", kAll, static_cast<double>(steps_ns) / count, "ns");
  for (uint32_t k = 0; k <= kTbRoles; ++k) {
    AddNumber(analysis, kTbRoleNames[k], kAll, static_cast<double>(totals[k]) / count, "ns");
    AddNumber(analysis, (std::string(kTbRoleNames[k]) + "_share").c_str(), kAll, Share(totals[k], steps_ns));
  }
}

// The plug-in's files have whole percents.
double ToWholePercent(double share) { return std::floor(share * 100 + 0.5) / 100; }

// A03, from the first step to the last.
void Utilisation(Analysis& analysis) {
  const Intervals steps = TbSteps(analysis.trace(), analysis.indexes().launches);
  catalogue::a03::OfTime(analysis, {steps.front().begin_ns, steps.back().end_ns}, ToWholePercent);
}

}  // namespace

std::vector<std::unique_ptr<Analyzer>> MakeTbPluginCatalogue() {
  return With({{"a01", TileAsTbPlugin}, {"a03", Utilisation}});
}

}  // namespace pitot::peers
