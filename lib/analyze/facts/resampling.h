// SPDX-License-Identifier: Apache-2.0
//
// How sure an order by time is: would other requests of the same kind have left it as it is? The bootstrap (Efron 1979)
// over what a trace has many of: requests and batches, or the steps of PyTorch's profiler.
#ifndef PITOT_LIB_ANALYZE_FACTS_RESAMPLING_H_
#define PITOT_LIB_ANALYZE_FACTS_RESAMPLING_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "pitot/model/trace.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// What is drawn: batches, and requests outside of batches; of a trace without either, steps. They are dealt to at most
// kMostGroups groups, which are drawn as one, so that cost and memory are bounded.
class Units {
 public:
  static constexpr uint32_t kMostGroups = 256;
  // O(events) where there are neither requests nor batches. The trace must outlive nothing.
  explicit Units(const model::Trace& trace);
  // The group of what ran in a context from then on; kNone of work of none.
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

// Time by group. Time of no group is not drawn: it is as it is.
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
  // In the order of groups, each once, after Merge.
  const std::vector<std::pair<uint32_t, int64_t>>& times() const { return times_; }
  void Merge();

 private:
  static constexpr size_t kMost = 4 * Units::kMostGroups;
  std::vector<std::pair<uint32_t, int64_t>> times_;
};

inline constexpr uint32_t kResamples = 400;
inline constexpr uint64_t kLeastUnits = 10;  // below that the order is as it happened to be
// Of rows in their order: in which share of resamples each is above the next; one less than there are rows. Draws are
// the same for the same trace. O(resamples * (groups + times)).
std::vector<double> FindAboveNext(const std::vector<GroupTimes*>& rows);

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_FACTS_RESAMPLING_H_
