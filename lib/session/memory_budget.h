// SPDX-License-Identifier: Apache-2.0
//
// How the memory budget is split. Rings, requests and names are fixed at the start. What the host adds, a judge and
// collectors, takes its part from the room for incidents: they hold less from then on.
#ifndef PITOT_LIB_SESSION_MEMORY_BUDGET_H_
#define PITOT_LIB_SESSION_MEMORY_BUDGET_H_

#include <atomic>
#include <cstdint>

#include "pitot/options.h"
#include "pitot/stats.h"
#include "session/case_room.h"
#include "session/depths.h"
#include "session/options.h"

namespace pitot::session {

// What the host has added to a recorder.
struct AddedParts {
  bool has_judge = false;
  uint64_t collector_bytes = 0;  // held
  bool has_black_box = false;
};
// The parts of the budget; they add up to it.
MemorySplit Split(const Options& options, const AddedParts& added = {});
// A budget that has room for the collectors.
uint64_t BudgetFor(const Options& options, const AddedParts& added);
// For the newest rows of collectors in the black box.
uint64_t BoxRowBytes(const Options& options);
// The part of the arena for the rows of one trace.
uint64_t RowBytes(const MemorySplit& split);
// The room for traces of which files and verdicts are still missing.
CaseRoom RoomForCases(const MemorySplit& split);

// The split of a running recorder.
class MemoryBudget {
 public:
  // Both outlive it.
  MemoryBudget(const OwnedOptions* options, Depths* depths) : options_(*options), depths_(*depths) {}

  // A judge is added. Returns what it may remember. Threads: any.
  uint64_t AddJudge() noexcept;
  // The split by what is added now. Asks the collectors. Threads: any, at normal priority.
  MemorySplit Now() noexcept;
  // The split, if collectors hold so much.
  MemorySplit With(uint64_t collector_bytes) const noexcept { return Split(options_.values, Added(collector_bytes)); }
  // The split before there are collectors, as if a judge was there: the host may be about to add one.
  MemorySplit AtStart() const noexcept;
  // A budget with room for all that is added, if collectors hold so much.
  uint64_t Enough(uint64_t collector_bytes) const noexcept;

 private:
  AddedParts Added(uint64_t collector_bytes) const noexcept;

  const OwnedOptions& options_;
  Depths& depths_;
  std::atomic<bool> has_judge_{false};
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_MEMORY_BUDGET_H_
