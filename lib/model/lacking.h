// SPDX-License-Identifier: Apache-2.0
//
// What the file of a trace could not say: a missing value is then unknown.
#ifndef PITOT_LIB_MODEL_LACKING_H_
#define PITOT_LIB_MODEL_LACKING_H_

#include <algorithm>
#include <string_view>

#include "pitot/model/trace.h"

namespace pitot::model {

// Whether the trace was read from a format that says nothing about `what` ("queues"), by its attribute "not_recorded".
inline bool IsLacking(const Trace& trace, std::string_view what) {
  constexpr std::string_view kBetween = "; ";
  std::string_view list = trace.AttributeOf("not_recorded");
  while (!list.empty()) {
    const size_t size = std::min(list.find(kBetween), list.size());
    if (list.substr(0, size) == what) return true;
    list.remove_prefix(std::min(size + kBetween.size(), list.size()));
  }
  return false;
}

// Whether nothing says what its threads lost. A reader may have found losses of GPUs, or damage.
inline bool AreLossesUnknown(const Trace& trace) { return trace.losses.empty() && IsLacking(trace, "losses"); }
inline constexpr char kLossesUnknown[] = "the format does not say what was lost";

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_LACKING_H_
