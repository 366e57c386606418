// SPDX-License-Identifier: Apache-2.0
//
// Splits a change of a mean in two: there were more of something, or each took longer. After Kitagawa, "Components
// of a difference between two rates", 1955.
#ifndef PITOT_LIB_ANALYZE_DIFF_CHANGE_H_
#define PITOT_LIB_ANALYZE_DIFF_CHANGE_H_

#include <cstdint>
#include <vector>

namespace pitot::diff {

// The amount of one key on one side: its total time, and its count in millionths. Things shared by several requests
// count in parts.
struct Amount {
  int64_t total_ns = 0;
  int64_t count_millionths = 0;
};
struct AmountPair {
  Amount before, after;
};

// The change of one key per request (or other divisor of the totals) in whole ns: after - before = count + duration.
struct Change {
  int64_t before_ns = 0, after_ns = 0;
  int64_t count_effect_ns = 0;     // (n2 - n1) x the mean of d1 and d2; all of it where a side has none
  int64_t duration_effect_ns = 0;  // (d2 - d1) x the mean of n1 and n2: the rest of the change
};

// Divides each key's totals by the numbers of requests, which are not 0. All `before_ns` add up to the rounded mean of
// all, and so do all `after_ns`. Each is rounded down, and the rest goes to the largest remainders, the first ones on a
// tie. The count effect is 0 if the count per request is unchanged, the duration effect if each takes as long.
// O(n log n).
std::vector<Change> SplitChanges(const std::vector<AmountPair>& keys, uint64_t requests_before,
                                 uint64_t requests_after);

}  // namespace pitot::diff

#endif  // PITOT_LIB_ANALYZE_DIFF_CHANGE_H_
