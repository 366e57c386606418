// SPDX-License-Identifier: Apache-2.0
//
// Sets of moments as stretches of time, in whole nanoseconds.
#ifndef PITOT_MODEL_INTERVALS_H_
#define PITOT_MODEL_INTERVALS_H_

#include <stdint.h>

#include <vector>

#include "pitot/export.h"

PITOT_NAMESPACE_BEGIN
namespace model {

// From `begin_ns` on, before `end_ns`.
struct Interval {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};
inline constexpr bool operator==(const Interval& a, const Interval& b) {
  return a.begin_ns == b.begin_ns && a.end_ns == b.end_ns;
}
inline constexpr bool operator!=(const Interval& a, const Interval& b) { return !(a == b); }

// A set: in order, none empty, with time between one and the next.
using Intervals = std::vector<Interval>;

// What any of `intervals` holds; they may come in any order, overlap and be empty. O(n log n).
PITOT_EXPORT Intervals Union(std::vector<Interval> intervals);
// Of two sets, O(n): what both hold, and what `a` holds and `b` does not.
PITOT_EXPORT Intervals Intersection(const Intervals& a, const Intervals& b);
PITOT_EXPORT Intervals Difference(const Intervals& a, const Intervals& b);
PITOT_EXPORT int64_t TotalNs(const Intervals& set);

}  // namespace model
PITOT_NAMESPACE_END

#endif  // PITOT_MODEL_INTERVALS_H_
