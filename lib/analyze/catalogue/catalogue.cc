// SPDX-License-Identifier: Apache-2.0
#include "analyze/catalogue/catalogue.h"

#include "pitot/analyze/analyze.h"

PITOT_NAMESPACE_BEGIN

Analyzer::~Analyzer() = default;

namespace analyze {

std::vector<std::unique_ptr<Analyzer>> MakeCatalogue() {
  std::vector<std::unique_ptr<Analyzer>> analyzers;
  analyzers.push_back(catalogue::MakeTimeTiling());
  analyzers.push_back(catalogue::MakeTopCosts());
  analyzers.push_back(catalogue::MakeUtilisation());
  analyzers.push_back(catalogue::MakeIdleGaps());
  analyzers.push_back(catalogue::MakeInputPipeline());
  analyzers.push_back(catalogue::MakeSmallCopies());
  analyzers.push_back(catalogue::MakeCopyQuality());
  analyzers.push_back(catalogue::MakeTransferBound());
  analyzers.push_back(catalogue::MakeSyncStalls());
  analyzers.push_back(catalogue::MakeLaunchOverhead());
  analyzers.push_back(catalogue::MakeLaunchQueue());
  analyzers.push_back(catalogue::MakeSequences());
  analyzers.push_back(catalogue::MakeScaling());
  analyzers.push_back(catalogue::MakeSerialisation());
  analyzers.push_back(catalogue::MakeCriticalPath());
  analyzers.push_back(catalogue::MakeRoofline());
  analyzers.push_back(catalogue::MakeLaunchGeometry());
  analyzers.push_back(catalogue::MakeFrameworkPatterns());
  analyzers.push_back(catalogue::MakeMemoryUse());
  analyzers.push_back(catalogue::MakeAllocatorStalls());
  analyzers.push_back(catalogue::MakeColdStart());
  analyzers.push_back(catalogue::MakeClocks());
  analyzers.push_back(catalogue::MakeHostContention());
  analyzers.push_back(catalogue::MakePlateau());
  analyzers.push_back(catalogue::MakeLlmServing());
  analyzers.push_back(catalogue::MakeStageBudget());
  analyzers.push_back(catalogue::MakeAmdahl());
  analyzers.push_back(catalogue::MakeCost());
  analyzers.push_back(catalogue::MakeChangePoints());
  analyzers.push_back(catalogue::MakeOutlierSteps());
  analyzers.push_back(catalogue::MakeDataQuality());
  analyzers.push_back(catalogue::MakeTailDrivers());
  analyzers.push_back(catalogue::MakeKnee());
  analyzers.push_back(catalogue::MakeEnergy());
  return analyzers;
}

}  // namespace analyze
PITOT_NAMESPACE_END
