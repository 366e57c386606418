// SPDX-License-Identifier: Apache-2.0
//
// Requests in the words of reports and tools.
#ifndef PITOT_LIB_MODEL_REQUEST_TEXT_H_
#define PITOT_LIB_MODEL_REQUEST_TEXT_H_

#include <algorithm>
#include <string>

#include "base/columns.h"
#include "pitot/model/trace.h"

namespace pitot::model {

inline const char* OutcomeText(const RequestRow& request) {
  if (request.end_known) return OutcomeName(request.outcome);
  return request.duration_ns == kOpen ? "open" : "end unknown";
}

// The id by which people know it: the host's own, otherwise Pitot's. `pitot why --request` takes both.
inline std::string RequestName(const Trace& trace, const RequestRow& request) {
  return request.host_id != 0 ? std::string(trace.strings[request.host_id]) : base::RequestId(request.id);
}
inline std::string RequestName(const Trace& trace, uint32_t row) { return RequestName(trace, trace.requests[row]); }

// The same for an id, whose request may be missing. O(requests).
inline std::string NameOfId(const Trace& trace, uint64_t id) {
  const auto row = std::find_if(trace.requests.begin(), trace.requests.end(),
                                [id](const RequestRow& request) { return request.id == id; });
  return row != trace.requests.end() ? RequestName(trace, *row) : base::RequestId(id);
}

// "failed: KV cache full"; without a reason only the outcome.
inline std::string EndText(const Trace& trace, const RequestRow& request) {
  const std::string outcome = OutcomeText(request);
  return request.reason == 0 ? outcome : outcome + ": " + std::string(trace.strings[request.reason]);
}

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_REQUEST_TEXT_H_
