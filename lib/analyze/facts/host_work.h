// SPDX-License-Identifier: Apache-2.0
//
// When threads were at work, and for whom.
#ifndef PITOT_LIB_ANALYZE_FACTS_HOST_WORK_H_
#define PITOT_LIB_ANALYZE_FACTS_HOST_WORK_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pitot/extend/analyzer.h"
#include "pitot/model/index.h"

namespace pitot::facts {

// The calls of each thread: rows first[t] to first[t + 1] - 1 of `calls`. Calls of unknown threads come after the last.
// O(threads log n).
std::vector<uint32_t> FirstCalls(const model::Trace& trace);

// When a thread worked for requests or batches within `time`: in their scopes, unless the innermost one is a wait, and
// except in calls that wait for GPUs. `first_calls` is from FirstCalls. O(n log n) of its events and calls. Throws
// Over.
model::Intervals WorkForAny(Analysis& analysis, uint32_t thread, model::Interval time,
                            const std::vector<uint32_t>& first_calls);

// "worker" of "worker 3" and "worker-4".
std::string GroupOfThread(std::string_view thread);

// Moments of the window in which any thread was in a scope or call of a context and did not wait there.
class HostWork {
 public:
  // Keeps nothing of the trace. O(n log n) of events and calls.
  explicit HostWork(const model::Trace& trace);
  // Work for a batch or one of its members between two moments; for a request outside of batches; for anyone.
  model::Intervals OfBatch(const model::Trace& trace, uint32_t batch, model::Interval within) const;
  const model::Intervals& OfRequest(uint32_t request) const { return requests_[request]; }
  const model::Intervals& OfAll() const { return all_; }

 private:
  std::vector<model::Intervals> batches_, requests_;
  model::Intervals all_;
};

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_HOST_WORK_H_
