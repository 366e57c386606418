// SPDX-License-Identifier: Apache-2.0
//
// The time before a token, and its iteration.
#ifndef PITOT_LIB_ANALYZE_BLAME_TOKEN_GAP_H_
#define PITOT_LIB_ANALYZE_BLAME_TOKEN_GAP_H_

#include <cstdint>
#include <optional>
#include <string>

#include "analyze/blame/stays.h"
#include "analyze/blame/walk.h"

namespace pitot::blame {

// Whether the row is its request's first token.
bool IsFirstToken(const model::Trace& trace, uint32_t token);
// The time since the token before it, or since the request's arrival; nothing if the token before is unknown. O(log n).
std::optional<model::Interval> TimeBefore(const Index& index, uint32_t token);
// The request's batch at the time of the token; kNone: it was in none. O(log n).
uint32_t IterationOf(const Index& index, uint32_t token);
// The size bucket of the baseline's cell: the request's for a first token, otherwise the iteration's number of members.
uint32_t TokenBucket(const Index& index, uint32_t token);
// Its route, bucket, and whether it is a first one.
LikeKey LikenessOfToken(const Index& index, uint32_t token);
// "in an iteration of decode with 8 members, of which 2 had no token yet"; "" if no iteration is known.
std::string IterationText(const Index& index, uint32_t token);

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_TOKEN_GAP_H_
