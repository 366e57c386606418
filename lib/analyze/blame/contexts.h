// SPDX-License-Identifier: Apache-2.0
//
// For which request alone a thread worked. A thread that begins the requests of its own batches keeps the last one as
// its context: that says nothing about the batch's work.
#ifndef PITOT_LIB_ANALYZE_BLAME_CONTEXTS_H_
#define PITOT_LIB_ANALYZE_BLAME_CONTEXTS_H_

#include <cstdint>
#include <vector>

#include "analyze/blame/namespace.h"
#include "pitot/model/index.h"
#include "pitot/model/trace.h"

namespace pitot::blame {

class Contexts {
 public:
  // O(n log n) of events and calls. The trace must outlive this.
  Contexts(const model::Trace& trace, const model::RequestIndex& requests);

  // The request for which it was recorded; kNone: none, all of its batch, or a request that may only be left over from
  // its beginning on the batch's thread.
  uint32_t OfEvent(uint32_t event) const { return is_event_left_[event] ? model::kNone : trace_.events.request[event]; }
  uint32_t OfCall(uint32_t call) const { return is_call_left_[call] ? model::kNone : trace_.calls.request[call]; }

 private:
  const model::Trace& trace_;
  std::vector<bool> is_event_left_, is_call_left_;
};

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_CONTEXTS_H_
