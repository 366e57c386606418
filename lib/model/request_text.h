// SPDX-License-Identifier: Apache-2.0
//
// Requests in the words of reports and tools.
#ifndef PITOT_LIB_MODEL_REQUEST_TEXT_H_
#define PITOT_LIB_MODEL_REQUEST_TEXT_H_

#include <string>

#include "pitot/model/trace.h"

namespace pitot::model {

inline const char* OutcomeText(const RequestRow& request) {
  if (request.end_known) return OutcomeName(request.outcome);
  return request.duration_ns == kOpen ? "open" : "end unknown";
}

// "failed: KV cache full"; without a reason only the outcome.
inline std::string EndText(const Trace& trace, const RequestRow& request) {
  const std::string outcome = OutcomeText(request);
  return request.reason == 0 ? outcome : outcome + ": " + std::string(trace.strings[request.reason]);
}

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_REQUEST_TEXT_H_
