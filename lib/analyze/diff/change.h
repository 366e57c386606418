// SPDX-License-Identifier: Apache-2.0
//
// What a change of a mean is made of: that there were more of something, or that each took longer (Kitagawa,
// "Components of a difference between two rates", 1955).
#ifndef PITOT_LIB_ANALYZE_DIFF_CHANGE_H_
#define PITOT_LIB_ANALYZE_DIFF_CHANGE_H_

#include <cstdint>
#include <vector>

#include "pitot/export.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// Of one key, on one side: how long it took in all, and how many there were, in millionths (parts of things that others
// share).
struct Amount {
  int64_t total_ns = 0;
  int64_t count_millionths = 0;
};
struct AmountPair {
  Amount before, after;
};

// Of one key, a request (or whatever the totals are divided by), in whole ns: after - before = count + duration.
struct Change {
  int64_t before_ns = 0, after_ns = 0;
  int64_t count_effect_ns = 0;     // (n2 - n1) x the mean of d1 and d2; all of it where a side has none
  int64_t duration_effect_ns = 0;  // (d2 - d1) x the mean of n1 and n2: the rest of the change
};

// Divides each key's totals by the numbers of requests, which are not 0. All `before_ns` add up to the rounded mean of
// all, and so do all `after_ns`: each is rounded down, and what is left goes to the largest remainders, of equal ones
// to the first. As many a request as before: the count effect is 0; as long each: the duration effect is. O(n log n).
std::vector<Change> SplitChanges(const std::vector<AmountPair>& keys, uint64_t requests_before,
                                 uint64_t requests_after);

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_DIFF_CHANGE_H_
