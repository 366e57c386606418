// SPDX-License-Identifier: Apache-2.0
//
// How sure is an order by time: would other requests of the same kind have left it the same? The bootstrap (Efron 1979)
// over the many units of a trace: requests and batches, or the steps of a profiler.
#ifndef PITOT_LIB_ANALYZE_FACTS_RESAMPLING_H_
#define PITOT_LIB_ANALYZE_FACTS_RESAMPLING_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "pitot/model/trace.h"

namespace pitot::facts {

// The units to draw: batches, and requests outside of batches; in a trace without either, steps. They are dealt to at
// most kMostGroups groups, and each group is drawn as one, so that cost and memory are bounded.
class Units {
 public:
  static constexpr uint32_t kMostGroups = 256;
  // O(events) where there are neither requests nor batches. Keeps no reference to the trace.
  explicit Units(const model::Trace& trace);
  // The group of work in a context or, where steps are drawn, of work that begins at `at_ns`; kNone outside of all
  // units.
  uint32_t Of(uint32_t request, uint32_t batch, int64_t at_ns) const {
    if (batch != model::kNone) return batch % kMostGroups;
    if (request != model::kNone) return (batches_ + request) % kMostGroups;
    return steps_.empty() ? model::kNone : OfStep(at_ns);
  }
  uint64_t count() const { return steps_.empty() ? uint64_t{batches_} + requests_ : steps_.size(); }

 private:
  uint32_t OfStep(int64_t at_ns) const;
  uint32_t batches_ = 0, requests_ = 0;
  std::vector<std::pair<int64_t, int64_t>> steps_;  // begin and end
};

// Time by group. Time of no group is not drawn: it stays fixed.
class GroupTimes {
 public:
  void Add(uint32_t group, int64_t ns) {
    if (!times_.empty() && times_.back().first == group) {
      times_.back().second += ns;
      return;
    }
    if (times_.size() >= kMost) Merge();
    times_.emplace_back(group, ns);
  }
  // After Merge: by group in ascending order, each once.
  const std::vector<std::pair<uint32_t, int64_t>>& times() const { return times_; }
  void Merge();

 private:
  static constexpr size_t kMost = 4 * Units::kMostGroups;
  std::vector<std::pair<uint32_t, int64_t>> times_;
};

inline constexpr uint32_t kResamples = 400;
inline constexpr uint64_t kLeastUnits = 10;  // with fewer the order may be chance
// For rows in their order: the share of resamples in which each is above the next, so one share less than rows. Draws
// are the same for the same trace. O(resamples * (groups + times)).
std::vector<double> FindAboveNext(const std::vector<GroupTimes*>& rows);

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_RESAMPLING_H_
