// SPDX-License-Identifier: Apache-2.0
//
// What the file of a trace could not say: a missing value is then unknown.
#ifndef PITOT_LIB_MODEL_LACKING_H_
#define PITOT_LIB_MODEL_LACKING_H_

#include <algorithm>
#include <string_view>

#include "pitot/model/trace.h"

namespace pitot::model {

inline constexpr std::string_view kLacksKey = "not_recorded", kBetweenLacks = "; ";

// Calls `f` with each thing that the trace's format says nothing about ("queues"), by that attribute.
template <class F> void ForEachLack(const Trace& trace, const F& f) {
  std::string_view list = trace.AttributeOf(kLacksKey);
  while (!list.empty()) {
    const size_t size = std::min(list.find(kBetweenLacks), list.size());
    f(list.substr(0, size));
    list.remove_prefix(std::min(size + kBetweenLacks.size(), list.size()));
  }
}

inline bool IsLacking(const Trace& trace, std::string_view what) {
  bool is_lacking = false;
  ForEachLack(trace, [&](std::string_view lack) { is_lacking |= lack == what; });
  return is_lacking;
}

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_LACKING_H_
