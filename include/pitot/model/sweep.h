// SPDX-License-Identifier: Apache-2.0
//
// The priority sweep: what of several things that go on at once a moment counts for. Everything that shares time out
// between kinds of work (tiling, overlap, exposed time) is this one sweep, in whole nanoseconds, so that its parts add
// up to the window exactly.
#ifndef PITOT_MODEL_SWEEP_H_
#define PITOT_MODEL_SWEEP_H_

#include <stdint.h>

#include <vector>

#include "pitot/export.h"
#include "pitot/model/intervals.h"

PITOT_NAMESPACE_BEGIN
namespace model {

inline constexpr uint32_t kMostClasses = 64;

// A stretch of time in which the same classes go on: bit k of `active` is class k.
struct Slice {
  Interval time;
  uint64_t active = 0;
};

// The window cut wherever a class begins or ends: slices in order that tile it exactly, each unlike the next, none
// empty. `classes` are sets, at most kMostClasses of them (what is beyond is ignored), null ones empty.
// O(n log c) of the intervals and the classes.
PITOT_EXPORT std::vector<Slice> Sweep(const std::vector<const Intervals*>& classes, Interval window);

// How much of the window each class has, where a moment counts for the first that is active; the last number is of
// moments in which none is. They add up to the window. As Sweep, without the memory of slices.
PITOT_EXPORT std::vector<int64_t> TotalsByPriority(const std::vector<const Intervals*>& classes, Interval window);
// When each class is active and none before it.
PITOT_EXPORT std::vector<Intervals> ExposedTimes(const std::vector<const Intervals*>& classes, Interval window);

// When none is.
PITOT_EXPORT Intervals IdleTime(const std::vector<Slice>& slices);
// How long all of `classes` (bits) were active at once, whatever else was.
PITOT_EXPORT int64_t OverlapNs(const std::vector<Slice>& slices, uint64_t classes);

}  // namespace model
PITOT_NAMESPACE_END

#endif  // PITOT_MODEL_SWEEP_H_
