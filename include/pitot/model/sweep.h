// SPDX-License-Identifier: Apache-2.0
//
// The priority sweep: decides which of several concurrent activities a moment counts for. All divisions of time between
// kinds of work (tiling, overlap, exposed time) use this one sweep in whole nanoseconds. Their parts therefore add up
// to the window exactly.
#ifndef PITOT_MODEL_SWEEP_H_
#define PITOT_MODEL_SWEEP_H_

#include <stdint.h>

#include <vector>

#include "pitot/export.h"
#include "pitot/model/intervals.h"

PITOT_NAMESPACE_BEGIN
namespace model {

inline constexpr uint32_t kMostClasses = 64;

// A stretch of time with the same active classes: bit k of `active` is class k.
struct Slice {
  Interval time;
  uint64_t active = 0;
};

// Cuts the window wherever a class begins or ends. The slices are in order and tile the window exactly; none is empty,
// and neighbours differ. `classes` are sets: null ones are empty, and those beyond kMostClasses are ignored. O(n log c)
// of the intervals and the classes.
PITOT_EXPORT std::vector<Slice> Sweep(const std::vector<const Intervals*>& classes, Interval window);

// The time of each class in the window, if a moment counts for the first active class; the last number is the time
// without any. They add up to the window. Like Sweep, without the memory for slices.
PITOT_EXPORT std::vector<int64_t> TotalsByPriority(const std::vector<const Intervals*>& classes, Interval window);
// When each class is active and no earlier class is.
PITOT_EXPORT std::vector<Intervals> ExposedTimes(const std::vector<const Intervals*>& classes, Interval window);

// When no class is active.
PITOT_EXPORT Intervals IdleTime(const std::vector<Slice>& slices);
// How long all of `classes` (bits) were active at once, alone or with others.
PITOT_EXPORT int64_t OverlapNs(const std::vector<Slice>& slices, uint64_t classes);

}  // namespace model
PITOT_NAMESPACE_END

#endif  // PITOT_MODEL_SWEEP_H_
