// SPDX-License-Identifier: Apache-2.0
//
// Answers that exclude each other (docs/reference/analyzers.md#findings-together). Both are kept, half as sure, and say
// which other one contradicts them.
#ifndef PITOT_LIB_ANALYZE_VERDICT_CONTRADICTIONS_H_
#define PITOT_LIB_ANALYZE_VERDICT_CONTRADICTIONS_H_

#include <vector>

#include "analyze/verdict/namespace.h"
#include "pitot/analyze/analyze.h"
#include "pitot/analyze/why.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {
struct Cause;  // pitot/analyze/verdict.h
}  // namespace analyze
PITOT_NAMESPACE_END

namespace pitot::verdict {

// The thing two answers must share for one of them to be wrong.
enum class Meeting { kSameGpu, kSameKernels, kSameCalls };
struct Exclusion {
  const char *one, *other;  // codes of findings, or names of blames
  Meeting of;
  const char* why;  // not both
};
// The table; it ends with a null `one`.
extern const Exclusion kExclusions[];
template <class Visit> void ForExclusions(Visit visit) {
  for (const Exclusion* row = kExclusions; row->one != nullptr; ++row) visit(*row);
}

inline constexpr double kContradicted = 0.5;  // of confidence

// Marks findings of a window; undetermined ones claim nothing. Throws std::bad_alloc. Cost: O(n^2) in the findings with
// codes of the table.
void MarkContradictions(AnalysisReport* report);
// Marks the causes of one request.
void MarkContradictions(const RequestBlame& blame, std::vector<Cause>* causes);

}  // namespace pitot::verdict

#endif  // PITOT_LIB_ANALYZE_VERDICT_CONTRADICTIONS_H_
