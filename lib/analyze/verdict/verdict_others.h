// SPDX-License-Identifier: Apache-2.0
//
// Signs that a slow request is not alone: others like it were slow, too.
#ifndef PITOT_LIB_ANALYZE_VERDICT_VERDICT_OTHERS_H_
#define PITOT_LIB_ANALYZE_VERDICT_VERDICT_OTHERS_H_

#include "analyze/blame/index_data.h"
#include "analyze/verdict/namespace.h"
#include "pitot/analyze/verdict.h"

namespace pitot::verdict {

// Fills `like`, `like_median_ns`, `meanwhile` and `meanwhile_slow` of an otherwise complete verdict. Cost: O(n) in the
// trace's requests if the request was slow.
void FindOthers(const blame::Index& index, const RequestBlame& blame, Verdict* verdict) noexcept;

}  // namespace pitot::verdict

#endif  // PITOT_LIB_ANALYZE_VERDICT_VERDICT_OTHERS_H_
