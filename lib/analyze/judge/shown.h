// SPDX-License-Identifier: Apache-2.0
//
// Leaves findings without confidence out of reports.
#ifndef PITOT_LIB_ANALYZE_JUDGE_SHOWN_H_
#define PITOT_LIB_ANALYZE_JUDGE_SHOWN_H_

#include "pitot/analyze/analyze.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// False where its confidence would be printed as 0.00.
inline bool IsShown(const FindingRow& finding) { return finding.confidence >= 0.005; }

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_JUDGE_SHOWN_H_
