// SPDX-License-Identifier: Apache-2.0
//
// Sets of moments, as intervals in whole nanoseconds.
#ifndef PITOT_MODEL_INTERVALS_H_
#define PITOT_MODEL_INTERVALS_H_

#include <stdint.h>

#include <vector>

#include "pitot/export.h"

PITOT_NAMESPACE_BEGIN
namespace model {

// Includes `begin_ns`, excludes `end_ns`.
struct Interval {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};
inline constexpr bool operator==(const Interval& a, const Interval& b) {
  return a.begin_ns == b.begin_ns && a.end_ns == b.end_ns;
}
inline constexpr bool operator!=(const Interval& a, const Interval& b) { return !(a == b); }

// A set: in order, none empty, with gaps in between.
using Intervals = std::vector<Interval>;

// Moments in any of `intervals`; these may come in any order, overlap and be empty. O(n log n).
PITOT_EXPORT Intervals Union(std::vector<Interval> intervals);
// Adds one to those of a later Union. One that touches the last is joined to it, so that rows in order take little
// memory.
inline void AddTo(std::vector<Interval>* intervals, const Interval& interval) {
  if (!intervals->empty() && interval.begin_ns >= intervals->back().begin_ns &&
      interval.begin_ns <= intervals->back().end_ns) {
    if (interval.end_ns > intervals->back().end_ns) intervals->back().end_ns = interval.end_ns;
  } else {
    intervals->push_back(interval);
  }
}
// Moments in both sets, and moments in `a` but not in `b`. O(n).
PITOT_EXPORT Intervals Intersection(const Intervals& a, const Intervals& b);
PITOT_EXPORT Intervals Difference(const Intervals& a, const Intervals& b);
PITOT_EXPORT int64_t TotalNs(const Intervals& set);

}  // namespace model
PITOT_NAMESPACE_END

#endif  // PITOT_MODEL_INTERVALS_H_
