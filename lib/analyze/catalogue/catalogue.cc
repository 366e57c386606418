// SPDX-License-Identifier: Apache-2.0
#include "analyze/catalogue/catalogue.h"

#include "pitot/analyze/analyze.h"

PITOT_NAMESPACE_BEGIN

Analyzer::~Analyzer() = default;

namespace analyze {

std::vector<std::unique_ptr<Analyzer>> MakeCatalogue() {
  std::vector<std::unique_ptr<Analyzer>> analyzers;
  analyzers.push_back(MakeTimeTiling());
  analyzers.push_back(MakeTopCosts());
  analyzers.push_back(MakeUtilisation());
  analyzers.push_back(MakeIdleGaps());
  analyzers.push_back(MakeInputPipeline());
  analyzers.push_back(MakeSmallCopies());
  analyzers.push_back(MakeCopyQuality());
  analyzers.push_back(MakeTransferBound());
  analyzers.push_back(MakeSyncStalls());
  analyzers.push_back(MakeLaunchOverhead());
  analyzers.push_back(MakeLaunchQueue());
  analyzers.push_back(MakeSequences());
  analyzers.push_back(MakeScaling());
  analyzers.push_back(MakeSerialisation());
  analyzers.push_back(MakeCriticalPath());
  analyzers.push_back(MakeRoofline());
  analyzers.push_back(MakeLaunchGeometry());
  analyzers.push_back(MakeFrameworkPatterns());
  analyzers.push_back(MakeMemoryUse());
  analyzers.push_back(MakeAllocatorStalls());
  analyzers.push_back(MakeColdStart());
  analyzers.push_back(MakeClocks());
  analyzers.push_back(MakeHostContention());
  analyzers.push_back(MakePlateau());
  analyzers.push_back(MakeLlmServing());
  analyzers.push_back(MakeStageBudget());
  analyzers.push_back(MakeAmdahl());
  analyzers.push_back(MakeCost());
  analyzers.push_back(MakeChangePoints());
  analyzers.push_back(MakeOutlierSteps());
  analyzers.push_back(MakeDataQuality());
  analyzers.push_back(MakeTailDrivers());
  analyzers.push_back(MakeKnee());
  analyzers.push_back(MakeEnergy());
  return analyzers;
}

}  // namespace analyze
PITOT_NAMESPACE_END
