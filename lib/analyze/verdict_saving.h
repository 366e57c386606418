// SPDX-License-Identifier: Apache-2.0
//
// What it would save to have causes normal (analyzers.md section 2.10).
#ifndef PITOT_LIB_ANALYZE_VERDICT_SAVING_H_
#define PITOT_LIB_ANALYZE_VERDICT_SAVING_H_

#include <cstdint>
#include <vector>

#include "pitot/analyze/verdict.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// At most so much of the latency, all `causes` together: each of their segments is shortened in proportion to its
// cause's excess, what is shortened in a detour is worth no more than its thread waited for it, and all of it no more
// than the request's excess. Throws std::bad_alloc. Cost: O(segments) for each cause and detour.
int64_t Saving(const RequestBlame& blame, const std::vector<Cause>& causes, int64_t excess_ns);

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_VERDICT_SAVING_H_
