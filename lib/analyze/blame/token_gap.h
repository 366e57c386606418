// SPDX-License-Identifier: Apache-2.0
//
// The time before a token, and the iteration that made it.
#ifndef PITOT_LIB_ANALYZE_BLAME_TOKEN_GAP_H_
#define PITOT_LIB_ANALYZE_BLAME_TOKEN_GAP_H_

#include <cstdint>
#include <optional>
#include <string>

#include "analyze/blame/walk.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// Whether the row is of its request's first token.
bool IsFirstToken(const model::Trace& trace, uint32_t token);
// From the token before it, or the request's arrival; nothing where the one before is not known. O(log n).
std::optional<model::Interval> TimeBefore(const Index& index, uint32_t token);
// The batch of its request in which it was put out; kNone: it was in none. O(log n).
uint32_t IterationOf(const Index& index, uint32_t token);
// Of the baseline's cell: the size's of its request, or of how many members its iteration had.
uint32_t TokenBucket(const Index& index, uint32_t token);
// "in an iteration of decode with 8 members, of which 2 had no token yet"; "" where none is known.
std::string IterationText(const Index& index, uint32_t token);

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_BLAME_TOKEN_GAP_H_
