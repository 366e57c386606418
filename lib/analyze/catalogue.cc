// SPDX-License-Identifier: Apache-2.0
#include "analyze/catalogue.h"

#include "pitot/analyze/analyze.h"

PITOT_NAMESPACE_BEGIN

Analyzer::~Analyzer() = default;

namespace analyze {

std::vector<std::unique_ptr<Analyzer>> MakeCatalogue() {
  std::vector<std::unique_ptr<Analyzer>> analyzers;
  analyzers.push_back(catalogue::MakeTimeTiling());
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
  analyzers.push_back(catalogue::MakeHostContention());
  return analyzers;
}

}  // namespace analyze
PITOT_NAMESPACE_END
