// SPDX-License-Identifier: Apache-2.0
//
// Leaves findings without confidence out of reports.
#ifndef PITOT_LIB_ANALYZE_JUDGE_SHOWN_H_
#define PITOT_LIB_ANALYZE_JUDGE_SHOWN_H_

#include "analyze/judge/namespace.h"
#include "pitot/analyze/analyze.h"

namespace pitot::judge {

// False where its confidence would be printed as 0.00.
inline bool IsShown(const FindingRow& finding) { return finding.confidence >= 0.005; }

}  // namespace pitot::judge

#endif  // PITOT_LIB_ANALYZE_JUDGE_SHOWN_H_
