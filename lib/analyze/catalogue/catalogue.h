// SPDX-License-Identifier: Apache-2.0
//
// The built-in analyzers, one a file.
#ifndef PITOT_LIB_ANALYZE_CATALOGUE_CATALOGUE_H_
#define PITOT_LIB_ANALYZE_CATALOGUE_CATALOGUE_H_

#include <memory>

#include "pitot/extend/analyzer.h"

namespace pitot::catalogue {

std::unique_ptr<Analyzer> MakeTimeTiling();         // a01
std::unique_ptr<Analyzer> MakeTopCosts();           // a02
std::unique_ptr<Analyzer> MakeUtilisation();        // a03
std::unique_ptr<Analyzer> MakeIdleGaps();           // a04
std::unique_ptr<Analyzer> MakeInputPipeline();      // a05
std::unique_ptr<Analyzer> MakeSmallCopies();        // a06
std::unique_ptr<Analyzer> MakeCopyQuality();        // a07
std::unique_ptr<Analyzer> MakeTransferBound();      // a08
std::unique_ptr<Analyzer> MakeSyncStalls();         // a09
std::unique_ptr<Analyzer> MakeLaunchOverhead();     // a10
std::unique_ptr<Analyzer> MakeLaunchQueue();        // a11
std::unique_ptr<Analyzer> MakeSequences();          // a12
std::unique_ptr<Analyzer> MakeScaling();            // a15
std::unique_ptr<Analyzer> MakeSerialisation();      // a16
std::unique_ptr<Analyzer> MakeCriticalPath();       // a17
std::unique_ptr<Analyzer> MakeRoofline();           // a18
std::unique_ptr<Analyzer> MakeLaunchGeometry();     // a20
std::unique_ptr<Analyzer> MakeFrameworkPatterns();  // a22
std::unique_ptr<Analyzer> MakeMemoryUse();          // a23
std::unique_ptr<Analyzer> MakeAllocatorStalls();    // a24
std::unique_ptr<Analyzer> MakeColdStart();          // a25
std::unique_ptr<Analyzer> MakeClocks();             // a26
std::unique_ptr<Analyzer> MakeHostContention();     // a27
std::unique_ptr<Analyzer> MakePlateau();            // a28
std::unique_ptr<Analyzer> MakeLlmServing();         // a29
std::unique_ptr<Analyzer> MakeStageBudget();        // a30
std::unique_ptr<Analyzer> MakeAmdahl();             // a31
std::unique_ptr<Analyzer> MakeCost();               // a34
std::unique_ptr<Analyzer> MakeChangePoints();       // a35
std::unique_ptr<Analyzer> MakeOutlierSteps();       // a36
std::unique_ptr<Analyzer> MakeDataQuality();        // a39
std::unique_ptr<Analyzer> MakeTailDrivers();        // a41
std::unique_ptr<Analyzer> MakeKnee();               // a42
std::unique_ptr<Analyzer> MakeEnergy();             // a43

}  // namespace pitot::catalogue

#endif  // PITOT_LIB_ANALYZE_CATALOGUE_CATALOGUE_H_
