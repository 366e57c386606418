// SPDX-License-Identifier: Apache-2.0
//
// Where time went by call of CUDA's API.
#ifndef PITOT_LIB_ANALYZE_TOP_TOP_CALLS_H_
#define PITOT_LIB_ANALYZE_TOP_TOP_CALLS_H_

#include "analyze/top/rows.h"
#include "analyze/top/selection.h"
#include "analyze/top/top_index.h"

namespace pitot::top {

// Counts all calls made in the window. O(calls + rows of `gpu`).
void CountCalls(const TopIndex& index, const Selection& selection, Rows* rows);

}  // namespace pitot::top

#endif  // PITOT_LIB_ANALYZE_TOP_TOP_CALLS_H_
