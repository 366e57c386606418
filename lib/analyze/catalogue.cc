// SPDX-License-Identifier: Apache-2.0
#include "analyze/catalogue.h"

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
  return analyzers;
}

}  // namespace analyze
PITOT_NAMESPACE_END
