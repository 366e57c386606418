// SPDX-License-Identifier: Apache-2.0
//
// The share of a batch's code in calls that launch GPU work, by their number and time (BatchRow::launches), where only
// slow ones are recorded (docs/reference/walk.md#launches-that-were-counted).
#ifndef PITOT_LIB_ANALYZE_BLAME_LAUNCHING_H_
#define PITOT_LIB_ANALYZE_BLAME_LAUNCHING_H_

#include <cstdint>
#include <vector>

#include "analyze/blame/namespace.h"
#include "pitot/analyze/why.h"
#include "pitot/model/trace.h"

namespace pitot::blame {

class Launching {
 public:
  // O(batches + calls). Keeps no reference to the trace.
  Launching(const model::Trace& trace, const BlameOptions& options);

  // Shares of its thread's time outside of recorded calls.
  struct Of {
    double launching = 0;
    double full_queue = 0;  // beyond the usual time of so many launches, more than a stream holds
    bool is_full = false;   // its slow launches waited for room: those without a record did, or there are too many
  };
  Of OfBatch(uint32_t batch) const { return of_[batch]; }

 private:
  std::vector<Of> of_;  // by batch
};

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_LAUNCHING_H_
