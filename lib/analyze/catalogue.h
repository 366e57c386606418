// SPDX-License-Identifier: Apache-2.0
//
// The built-in analyzers, one a file.
#ifndef PITOT_LIB_ANALYZE_CATALOGUE_H_
#define PITOT_LIB_ANALYZE_CATALOGUE_H_

#include <memory>

#include "pitot/extend/analyzer.h"

namespace pitot::catalogue {

std::unique_ptr<Analyzer> MakeTimeTiling();      // a01
std::unique_ptr<Analyzer> MakeUtilisation();     // a03
std::unique_ptr<Analyzer> MakeIdleGaps();        // a04
std::unique_ptr<Analyzer> MakeInputPipeline();   // a05
std::unique_ptr<Analyzer> MakeSmallCopies();     // a06
std::unique_ptr<Analyzer> MakeCopyQuality();     // a07
std::unique_ptr<Analyzer> MakeTransferBound();   // a08
std::unique_ptr<Analyzer> MakeSyncStalls();      // a09
std::unique_ptr<Analyzer> MakeLaunchOverhead();  // a10
std::unique_ptr<Analyzer> MakeLaunchQueue();     // a11
std::unique_ptr<Analyzer> MakeSequences();       // a12
std::unique_ptr<Analyzer> MakeHostContention();  // a27

}  // namespace pitot::catalogue

#endif  // PITOT_LIB_ANALYZE_CATALOGUE_H_
