// SPDX-License-Identifier: Apache-2.0
//
// A request may be usual for its size, and unusual for its route: docs/reference/why.md#usual-for-its-size.
#ifndef PITOT_LIB_ANALYZE_VERDICT_BY_SIZE_H_
#define PITOT_LIB_ANALYZE_VERDICT_BY_SIZE_H_

#include <string>

#include "analyze/blame/index_data.h"
#include "analyze/verdict/namespace.h"
#include "pitot/analyze/verdict.h"

namespace pitot::verdict {

// A smaller factor is not "more".
inline constexpr double kLeastMore = 1.1;

// Whether the trace holds enough requests of its route and size, or first tokens of such, to know their median.
bool IsSizeKnown(const blame::Index& index, const RequestBlame& blame);
// Whether half of them take longer than a share `percentile` of its route. True if they are too few.
bool MayBeSize(const blame::Index& index, const RequestBlame& blame, double percentile);

// Fills `of_route` of a verdict compared with requests of its size. Without causes, and with most of the excess over
// its route explained by its size, the verdict becomes kMoreWork.
void ExplainBySize(const blame::Index& index, const RequestBlame& blame, const VerdictOptions& options,
                   Verdict* verdict);

// "pixels 1,960,000; requests of this route usually have 9,216 and take 25.2 ms".
std::string SizeOfRouteText(const model::Trace& trace, const SizeOfRoute& of_route);

}  // namespace pitot::verdict

#endif  // PITOT_LIB_ANALYZE_VERDICT_BY_SIZE_H_
