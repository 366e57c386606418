// SPDX-License-Identifier: Apache-2.0
//
// Traces of which there is nothing to say.
#ifndef PITOT_LIB_MODEL_IS_EMPTY_H_
#define PITOT_LIB_MODEL_IS_EMPTY_H_

#include "pitot/model/trace.h"

namespace pitot::model {

// Whether nothing happened in the trace.
inline bool IsEmpty(const Trace& trace) {
  return trace.events.size() == 0 && trace.calls.size() == 0 && trace.gpu.size() == 0 && trace.samples.size() == 0 &&
         trace.requests.empty() && trace.batches.empty() && trace.handoffs.empty() && trace.asyncs.empty() &&
         trace.tokens.empty() && trace.overheads.empty();
}

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_IS_EMPTY_H_
