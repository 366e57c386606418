// SPDX-License-Identifier: Apache-2.0
//
// GPU work that a file of another profiler misses, or whose records cannot be true: what it spoils.
#ifndef PITOT_LIB_ANALYZE_FACTS_MISSING_GPU_WORK_H_
#define PITOT_LIB_ANALYZE_FACTS_MISSING_GPU_WORK_H_

#include <string_view>
#include <vector>

#include "analyze/facts/quality.h"

namespace pitot::facts {

// Adds a damage for each kind of missing work (lib/base/gpu_loss_reason.h). O(rows of `gpu`) if there is any.
void AddMissingGpuWork(const model::Trace& trace, std::vector<Damage>* damages);

// The shares of GPU work that are missing, as far as the damages tell.
struct MissingWork {
  double of_launches = 0, set_aside = 0;
};
MissingWork FindMissingWork(const model::Trace& trace, const std::vector<Damage>& damages);

// Whether a finding can be true although work is missing. Findings that take the absence of GPU records for idleness
// ("a04.idle"), or a part of the work for all, are unknown if launches of more than a tenth of it have none. Records
// that were set aside are about as long as others: if they are at most a quarter, shares of time can still be judged.
bool IsKnownWithout(const MissingWork& missing, std::string_view code, double value, double threshold);

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_MISSING_GPU_WORK_H_
