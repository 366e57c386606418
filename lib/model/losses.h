// SPDX-License-Identifier: Apache-2.0
//
// The effect of losses on a trace.
#ifndef PITOT_LIB_MODEL_LOSSES_H_
#define PITOT_LIB_MODEL_LOSSES_H_

#include <string>
#include <string_view>

#include "pitot/model/trace.h"

PITOT_NAMESPACE_BEGIN
namespace model {

// Whether events are missing, rather than the record of a scope or a request.
constexpr bool IsOfEvents(LossReason reason) {
  return reason == LossReason::kOverwritten || reason == LossReason::kCopying || reason == LossReason::kReserve ||
         reason == LossReason::kUnreadable;
}

// "; of GPU counters, 37 samples since the recorder's start", or "": nobody knows when they were due.
inline std::string LostSamplesText(const Trace& trace) {
  std::string text;
  for (const Attribute& row : trace.attributes) {
    const std::string_view key = trace.strings[row.key];
    if (key.starts_with("counters.") && key.ends_with(".lost_samples"))
      text = (text.empty() ? "; of GPU counters, " : text + " and ") + std::string(trace.strings[row.value]);
  }
  return text.empty() ? text : text + " samples since the recorder's start";
}

}  // namespace model
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_MODEL_LOSSES_H_
